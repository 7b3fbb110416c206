"""Renders a trace as strings and dicts for the page: pure functions, no gradio, no torch, no HTML."""
