"""Demonstrations on things that really happen; `python -m examples.NAME` runs one, `make examples` all of them."""
