"""Logits to probabilities, uniforms and acceptance rules: tensors in, tensors out, no model.

A new rule is an entry of `ACCEPTANCE` in engine.config.
"""
