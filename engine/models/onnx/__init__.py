"""ONNX Runtime graphs of a decoder and of heads, for a CPU."""
