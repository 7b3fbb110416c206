"""The theory experiment: the speedup model under sliders."""
