"""Keeps `engine.bench` importable for programs that were written before it became `engine.tools.bench`."""

import sys

from engine.tools import bench

sys.modules[__name__] = bench
