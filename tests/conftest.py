"""Shared by all tests: how hypothesis runs, and the policies that are under test."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# Compiling a policy in the first example is slow, and that is no fault of the example.
settings.register_profile(
    "umab", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=bool(os.environ.get("CI"))
)
settings.load_profile("umab")
