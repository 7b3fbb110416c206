"""Says whether a person's own model runs here, before anything is fetched or loaded."""
