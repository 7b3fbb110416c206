"""One file a tab: layout and wiring, nothing else."""
