"""Reads what a container may use of the processor and of the memory, from its control groups of version 1 or 2."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

_ROOT, _OWN = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def cpu_limit() -> float | None:
    """Returns the cores' worth of time that this process may use; None without a limit."""
    return min(_values("cpu", _cpu_limit), default=None)


def free_memory() -> int | None:
    """Returns the bytes left under the tightest limit; None without one. Cached files count as free, because the kernel
    drops them."""
    return min(_values("memory", _free_memory), default=None)


def _values(controller: str, read: Callable[[Path], float]) -> Iterator:
    """Yields what ``read`` finds in the groups that this process belongs to. A group is also held to the limits of
    those above it; and in a container the path of its own group leads nowhere, because it is the root there."""
    try:
        paths = {Path(line.split(":", 2)[2].lstrip("/")) for line in _OWN.read_text().splitlines()}
    except (OSError, IndexError, ValueError):
        paths = set()
    levels = {level for path in paths for level in (path, *path.parents)} | {Path()}
    for root in (_ROOT, _ROOT / controller):  # version 2, and 1 with a folder for each controller
        for level in levels:
            try:
                yield read(root / level)
            except (OSError, ValueError):  # the group is not here, or has no limit ("max")
                continue


def _cpu_limit(group: Path) -> float:
    """Raises ValueError for a group without a limit, and OSError for one that does not exist."""
    if (group / "cpu.max").exists():
        quota, period = map(int, (group / "cpu.max").read_text().split())
    else:
        quota, period = (int((group / f"cpu.cfs_{name}_us").read_text()) for name in ("quota", "period"))
    if quota <= 0 or period <= 0:  # -1 sets none
        raise ValueError
    return quota / period


def _free_memory(group: Path) -> int:
    """Raises as `_cpu_limit` does. Version 1 gives a number as large as all addresses where nothing is limited."""
    if (group / "memory.max").exists():
        names, cache = ("memory.max", "memory.current"), "inactive_file"
    else:
        names, cache = ("memory.limit_in_bytes", "memory.usage_in_bytes"), "total_inactive_file"
    limit, used = (int((group / name).read_text()) for name in names)
    cached = re.search(rf"^{cache} (\d+)", (group / "memory.stat").read_text(), re.M)
    if limit >= 2**60 or cached is None:
        raise ValueError
    return limit - used + int(cached[1])
