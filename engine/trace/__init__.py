"""What happened in a run, as data: events, trace files, metrics and the speedup model. Imports no torch."""
