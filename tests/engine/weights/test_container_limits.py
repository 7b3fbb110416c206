"""A container's share of processor and memory: control groups of version 1 and 2, nested, without a limit, damaged."""

import os

import pytest

from engine.models.onnx import session
from engine.weights import container_limits as containers
from engine.weights.preflight import available_memory

V1_CPU, V1_MEMORY = ("cpu.cfs_quota_us", "cpu.cfs_period_us"), ("memory.limit_in_bytes", "memory.usage_in_bytes")
NO_LIMIT = "9223372036854771712"


@pytest.fixture
def groups(tmp_path, monkeypatch):
    """``groups(own, files)``: control groups with these files, in which the process belongs to ``own``."""
    monkeypatch.setattr(containers, "_ROOT", tmp_path / "cgroup")
    monkeypatch.setattr(containers, "_OWN", tmp_path / "own")

    def write(own: str | None, files: dict[str, str]) -> None:
        if own is not None:
            (tmp_path / "own").write_text(own)
        for name, text in files.items():
            (tmp_path / "cgroup" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "cgroup" / name).write_text(f"{text}\n")

    return write


@pytest.mark.parametrize(("own", "files", "limit"), [
    ("0::/", {"cpu.max": "150000 100000"}, 1.5),
    (None, {"cpu.max": "150000 100000"}, 1.5),
    ("0::/", {"cpu.max": "max 100000"}, None),
    ("0::/", {}, None),
    ("0::/user.slice/a.scope", {"user.slice/cpu.max": "100000 100000", "user.slice/a.scope/cpu.max": "max 100000"}, 1),
    ("0::/docker/abc", {"cpu.max": "50000 100000"}, 0.5),
    ("3:cpu,cpuacct:/docker/abc\n2:memory:/", {"cpu/cpu.cfs_quota_us": "100000", "cpu/cpu.cfs_period_us": "50000"}, 2),
    ("3:cpu:/a/b", {"cpu/a/b/cpu.cfs_quota_us": "-1", "cpu/a/b/cpu.cfs_period_us": "100000",
                    "cpu/a/cpu.cfs_quota_us": "300000", "cpu/a/cpu.cfs_period_us": "100000"}, 3),
    ("3:cpu:/", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
    ("nonsense", {"cpu.max": "nonsense"}, None), ("0::/", {"cpu.max": ""}, None), ("0::/", {"cpu.max": "5 0"}, None),
])  # fmt: skip
def test_the_tightest_limit_of_the_processor_counts(groups, own, files, limit):
    groups(own, files)
    assert containers.cpu_limit() == limit
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert session.cores() == (usable if limit is None else max(1, min(usable, int(limit))))


@pytest.mark.parametrize(("own", "files", "free"), [
    ("0::/", {"memory.max": "5000", "memory.current": "3000", "memory.stat": "inactive_file 400"}, 2400),
    ("0::/", {"memory.max": "max", "memory.current": "3000", "memory.stat": "inactive_file 400"}, None),
    ("2:memory:/x", {"memory/memory.limit_in_bytes": "5000", "memory/memory.usage_in_bytes": "3000",
                     "memory/memory.stat": "inactive_file 1\ntotal_inactive_file 400"}, 2400),
    ("2:memory:/x", {"memory/x/memory.limit_in_bytes": "5000", "memory/x/memory.usage_in_bytes": "3000",
                     "memory/x/memory.stat": "total_inactive_file 0", "memory/memory.limit_in_bytes": NO_LIMIT,
                     "memory/memory.usage_in_bytes": "9", "memory/memory.stat": "total_inactive_file 0"}, 2000),
    ("2:memory:/", {"memory/memory.limit_in_bytes": NO_LIMIT, "memory/memory.usage_in_bytes": "3000",
                    "memory/memory.stat": "total_inactive_file 400"}, None),
    ("0::/", {"memory.max": "5000"}, None),
])  # fmt: skip
def test_the_tightest_limit_of_the_memory_counts(groups, own, files, free):
    groups(own, files)
    assert containers.free_memory() == free
    assert available_memory("cpu") == free if free else 2**20 < available_memory("cpu") < 2**50
