"""The sweep experiment: methods, draft lengths and temperatures measured over prompts."""
