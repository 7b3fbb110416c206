"""The speculative decoding loop, the choice of the draft length and the recording of each round."""
