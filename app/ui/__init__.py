"""Gradio components with scripts of their own, shared by all tabs."""
