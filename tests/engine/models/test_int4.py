"""int4: what rounding keeps, that a product is the product of the rounded weights, and what it refuses."""

import pytest
import torch
from tiny_models import write

from engine.errors import Unavailable
from engine.models.attention import Span
from engine.models.int4 import GROUP, GroupedWeight, Int4Head, Int4Linear, int4_works
from engine.models.llama import LlamaModel
from engine.models.loader import choose_precision
from engine.models.safetensors_reader import TensorReader

pytestmark = pytest.mark.skipif(not int4_works(), reason="this processor has no 4-bit product")


SIZES = {"hidden_size": 64, "intermediate_size": 96}


def weights(N=64, K=96, seed=0):
    return torch.randn(N, K, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("bits, steps", [(4, 15), (8, 254)])
def test_rounding_is_off_by_half_a_step_at_most(bits, steps):
    w = weights()
    groups = w.view(64, -1, GROUP)
    span = groups.amax(-1) - groups.amin(-1) if bits == 4 else 2 * groups.abs().amax(-1)
    error = (GroupedWeight.rounded(w, bits).dense() - w).view(64, -1, GROUP).abs().amax(-1)
    assert (error <= span / steps / 2 * 1.001).all()


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("rows", [1, 3, 9])
def test_a_product_is_that_of_the_rounded_weights(bits, rows):
    weight, x = GroupedWeight.rounded(weights(4096 + 64), bits), weights(rows, seed=1)
    bias = torch.randn(4096 + 64)
    right = x @ weight.dense().T + bias
    found = Int4Linear(weight, bias)(x)
    assert found.dtype == x.dtype and (found - right).abs().max() < 0.01 * right.abs().max()


def test_a_row_does_not_depend_on_the_rows_beside_it():
    linear, x = Int4Linear(GroupedWeight.rounded(weights())), weights(11, seed=1)
    assert torch.equal(linear(x), torch.cat([linear(row[None]) for row in x]))


def test_the_largest_logits_are_as_exact_as_fp32():
    weight, x = GroupedWeight.rounded(weights(640), 8), 8 * weights(5, seed=1)
    right = x @ weight.dense().T
    top = right.topk(8).indices
    near, coarse = (f(weight)(x).gather(1, top) - right.gather(1, top) for f in (Int4Head, Int4Linear))
    assert near.abs().max() < 1e-3 < 0.1 < coarse.abs().max()


def test_a_model_in_int4_is_the_model_with_its_weights_rounded(tmp_path):
    """Beside the same decoder in fp32 on the rounded weights, only activations differ: they are rounded to bf16."""
    config = write(tmp_path, **SIZES).config
    model = LlamaModel(tmp_path, config, torch.float32, "cpu", bits=4)

    class Rounded:
        """The folder's weights, those of linears and embedding rounded as int4 rounds them."""

        def __init__(self, inner):
            self.inner = inner

        def __contains__(self, name):
            return name in self.inner

        def __call__(self, name, shape=None):
            w = self.inner(name, shape)
            if w.ndim < 2:
                return w
            return GroupedWeight.rounded(w, 8 if "embed" in name or "lm_head" in name else 4).dense()

    rounded = Rounded(TensorReader(tmp_path, torch.float32, "cpu"))
    right = LlamaModel(tmp_path, config, torch.float32, "cpu", weights=rounded)
    ids = torch.arange(9) % model.vocab_size
    logits = []
    for each in (model, right):
        order = torch.arange(9)
        span = Span(order, order, order[None] <= order[:, None], 9, each.new_cache(9))
        with torch.inference_mode():
            logits.append(each.forward(ids, [span])[0])
    assert (logits[0] - logits[1]).abs().max() < 0.05 * logits[1].abs().max()
    assert not torch.equal(*logits)


@pytest.mark.parametrize(
    "sizes, words",
    [({"hidden_size": 48}, "48 inputs; choose fp32"), ({"vocab_size": 300}, "layer here has 300; choose")],
)
def test_what_no_group_or_block_divides_is_refused_in_a_sentence(tmp_path, sizes, words):
    config = write(tmp_path, **SIZES | sizes).config
    with pytest.raises(Unavailable, match=words):
        LlamaModel(tmp_path, config, torch.float32, "cpu", bits=4)


def test_another_device_is_refused_in_a_sentence():
    with pytest.raises(Unavailable, match="4-bit product, which 'cuda' lacks; choose fp32"):
        choose_precision("int4", "cuda")
