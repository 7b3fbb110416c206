"""GGUF files as folders that transformers can read. Their tensors are read by engine/models/tensors."""
