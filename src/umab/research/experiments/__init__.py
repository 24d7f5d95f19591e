"""Experiments as data: a TOML file says what to run and what is claimed; the runner runs it and judges the claims."""
