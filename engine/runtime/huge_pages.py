"""Starts the program again with large buffers in memory pages of 2 MB.

Linux gives a buffer small pages unless its owner asks for large ones, and ONNX Runtime does not ask (1.32). A pass
reads all weights, so it then looks up half a million addresses. glibc asks for every large buffer if a variable says so
at the start of the process. On two cores of an AMD EPYC a plain step of a model with 1.8 billion weights in int8 took
53 ms instead of 78; one of the embedded model took 9.7 instead of 11.4 in int8, and 20 instead of 23.5 in fp32.
"""

import os
import sys

VARIABLE = "GLIBC_TUNABLES"  # read by glibc 2.35 and later; older ones do not know this setting and ignore it
SETTING = "glibc.malloc.hugetlb=1"


def restart_with_huge_pages() -> None:
    """Replaces this process by itself with the variable set, unless it is set already. To be called first, because
    nothing of this process is left afterwards."""
    if sys.platform == "linux" and VARIABLE not in os.environ:
        os.environ[VARIABLE] = SETTING
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def are_requested() -> bool:
    """Returns whether this process runs with the setting, on which the times of passes depend."""
    return SETTING in os.environ.get(VARIABLE, "")
