"""Keeps `engine.bench` importable for programs that were written before it became `engine.tools.bench`.

A module of it that is imported by both names is there twice, with classes of its own, so use one of them.
"""

import sys

from engine.tools import bench

sys.modules[__name__] = bench
