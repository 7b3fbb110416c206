"""Publishes the page as a Hugging Face Space: `python -m app.publish OWNER/NAME`."""
