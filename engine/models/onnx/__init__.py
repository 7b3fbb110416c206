"""The same passes as ONNX Runtime graphs, for a CPU."""
