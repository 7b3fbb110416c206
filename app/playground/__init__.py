"""The playground tab."""
