"""SpecLens' engine: exact, traced speculative decoding. Light on purpose: it imports no torch by itself."""

import os

__version__ = "0.1.0"

# How long an OpenMP thread spins before it sleeps; read once, when torch is imported. A pass runs hundreds of parallel
# regions, and the default spins for so long that on a busy machine the threads starve each other (two cores, a second
# process at work, interleaved: median 249 ms a pass by default, 126 ms so; alone 33 ms either way).
os.environ.setdefault("GOMP_SPINCOUNT", "10000")
