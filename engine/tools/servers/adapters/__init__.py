"""One module for each engine whose servers can be recorded: what it tells, and in which field."""
