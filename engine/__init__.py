"""SpecLens' engine: exact, traced speculative decoding. Light on purpose: it imports no torch by itself."""

import os

__version__ = "0.1.0"

# How long an OpenMP thread spins before it sleeps; read once, when torch is imported. A pass runs hundreds of parallel
# regions, and the default spins for so long that on a busy machine the threads starve each other (two cores, a second
# process at work, interleaved: median 249 ms a pass by default, 126 ms so; alone 33 ms either way).
os.environ.setdefault("GOMP_SPINCOUNT", "10000")

# A container's user may have neither HOME nor an entry in passwd, and then the hub's client (2.4) ends in a traceback.
# Its files go into the cache that the user has named; without one, `cache_root` says what to set.
if os.path.expanduser("~") == "~" and os.environ.get("SPECLENS_CACHE"):
    os.environ.setdefault("HF_HOME", os.path.join(os.environ["SPECLENS_CACHE"], "hub"))
