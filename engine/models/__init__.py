"""Forward passes of models, heads and GGUF files: by ONNX Runtime on a CPU, by torch elsewhere, captured on CUDA."""
