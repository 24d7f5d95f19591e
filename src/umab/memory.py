"""How much memory this process has taken."""

from __future__ import annotations

import re
import sys
from pathlib import Path


def peak() -> int:
    """Return the most bytes that this process has had in memory so far; 0 where that cannot be found out."""
    try:
        # The kernel's other number, that of getrusage, begins with what the parent had when it started this process.
        (kilobytes,) = re.findall(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())
        return 1024 * int(kilobytes)
    except (OSError, ValueError):
        pass
    try:
        import resource
    except ImportError:
        return 0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most
