"""Rules that a learner may write, for the command line and for the page: the three holes, each as Python and as the
page's expression."""

from engine.tools.exactness import rule_exercise

RIGHT = ("u[i] * q[i][token] < p[i][token]", "(p[i] - q[i]).clamp_min(0)", "p[N]")
RIGHT_ON_PAGE = ("min(1, p / q)", "max(p - q, 0)", "p")
# name → ({hole: in Python}, {hole: on the page})
WRONG = {
    "q-ignored": ({0: "u[i] < p[i][token]"}, {0: "p"}),
    "ratio-inverted": ({0: "u[i] * p[i][token] < q[i][token]"}, {0: "q / p"}),
    "no-draw": ({0: "p[i][token] > q[i][token]"}, {0: "p > q"}),
    "u-inverted": ({0: "u[i] > p[i][token] / q[i][token]"}, {0: "u > p / q"}),
    "no-residual": ({1: "p[i]"}, {1: "p"}),
    "residual-absolute": ({1: "abs(p[i] - q[i])"}, {1: "max(p - q, q - p)"}),
    "residual-swapped": ({1: "(q[i] - p[i]).clamp_min(0)"}, {1: "max(q - p, 0)"}),
    "replaced-from-q": ({1: "q[i]"}, {1: "q"}),
    "bonus-from-q": ({2: "q[N - 1]"}, {2: "q"}),
    "closing-row-early": ({2: "p[N - 1]"}, {2: "before"}),
}
# Right ones in other words.
RIGHT_WRITINGS = [
    (RIGHT, RIGHT_ON_PAGE),
    (
        ("u[i] < min(1, p[i][token] / q[i][token])", "torch.maximum(p[i], q[i]) - q[i]", "p[-1] / 2"),
        ("u < p/q", "max(p, q) − q", "2 * p"),
    ),
    (
        ("p[i, token] / u[i] > q[i, token]", "[max(float(a - b), 0) for a, b in zip(p[i], q[i])]", "p[N].tolist()"),
        ("u * q < p", "normalise(p - min(p, q))", "p / sum(p)"),
    ),
    (
        ("1 - u[i] > 1 - p[i][token] / q[i][token]", "(p[i] - q[i]) * (p[i] > q[i])", "p[len(drafts)].clone()"),
        ("1 - max(0, 1 - p/q)", "(p - q) * (p > q)", "normalize(p)"),
    ),
]


def source(*holes: str) -> str:
    """Returns a learner's file with these three lines."""
    first, *others = rule_exercise.TEMPLATE.read_text(encoding="utf-8").split("= ...")
    return f"import torch\n{first}" + "".join(f"= {hole}{rest}" for hole, rest in zip(holes, others, strict=True))


def with_holes(right: tuple[str, ...], changed: dict[int, str]) -> list[str]:
    return [changed.get(hole, line) for hole, line in enumerate(right)]
