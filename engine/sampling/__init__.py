"""Logits to probabilities, uniforms and acceptance rules: tensors in, tensors out, no model."""
