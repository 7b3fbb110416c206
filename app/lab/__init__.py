"""The lab's experiments on the page: what each asks of the service, and what comes back. Thin; app.views draws."""
