"""The Gradio app. This file stays: without it `import app` finds app.py."""
