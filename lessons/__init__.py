"""The lessons: one Markdown file each, read by loader.py. README.md shows how to add one."""
