"""The lab's experiments, each in a folder of its own."""
