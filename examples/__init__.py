"""Demonstrations on things that really happen; `python -m examples.NAME` runs one, `python -m examples` all of them."""

MODULES = ("sat_solvers", "query_plans", "compressors", "learning_rates")
