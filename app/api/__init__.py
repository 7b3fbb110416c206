"""The public API: the endpoints for programs, through Gradio and over plain HTTP."""
