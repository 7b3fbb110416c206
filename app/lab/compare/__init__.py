"""The Compare experiment: two to four runs side by side."""
