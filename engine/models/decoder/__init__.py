"""Our own decoder in torch, its KV cache and runner, and the runner of any transformers model."""
