"""Serves the page: middleware, patches of Gradio, and what the host offers."""
