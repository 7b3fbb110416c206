"""The page and many engines on a Ray cluster."""
