"""Reads tensors from safetensors and GGUF files, whole or rounded."""
