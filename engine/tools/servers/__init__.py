"""Records, checks and explains runs of other engines' servers. Imports no torch and draws nothing."""
