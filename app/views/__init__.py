"""What is drawn, computed from a trace: pure functions to strings and dicts. No gradio, no torch, no HTML."""
