"""Forward passes: the Llama decoder, the EAGLE-3 head, transformers models, KV caches and CUDA graphs."""
