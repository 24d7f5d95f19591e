"""How much memory this process has taken."""

from __future__ import annotations

import re
import sys
from pathlib import Path


def peak() -> int:
    """Return the peak memory of this process so far in bytes, or 0 if the system does not say."""
    try:
        # The number from getrusage starts with what the parent had in memory when it started this process.
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
