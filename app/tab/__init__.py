"""The engine in a visitor’s own browser tab: its files, its page and the links to it."""
