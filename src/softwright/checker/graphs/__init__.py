"""ONNX files proved again: the graph that a network's tensors mean is written once more, and must be the file's."""
