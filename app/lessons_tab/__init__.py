"""The Lessons tab."""
