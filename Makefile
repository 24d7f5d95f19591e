# Every command sets itself up: a virtual environment in .venv and what the command needs in it.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: help docs changing delays examples latencies paper reproduce theory suite test test-all test-versions lint bench bench-before bench-peers bench-context coming-from bench-install bench-service bench-gpu test-gpu dist clean

help:
	@echo "make reproduce      run the paper's experiments and write report/index.html"
	@echo "make paper          the same, and write docs/paper.md and its figures from it"
	@echo "make docs           build the documentation site into site/; site/index.html works without a server"
	@echo "make theory         search for worst cases and write docs/theory.md and docs/errata.md"
	@echo "make suite          run all policies on the suite of loss tables and write docs/suite.md, docs/suite-changing.md, docs/suite-heavy.md and docs/suite-service.md"
	@echo "make changing       measure how the recommended policy follows changes and write that into docs/changing.md"
	@echo "make delays         measure what late feedback costs policies and write docs/delays.md"
	@echo "make latencies      play policies on latencies with outliers and write docs/latencies.md and the figure of the README"
	@echo "make examples       measure the demonstrations and write docs/examples"
	@echo "make test           run the tests"
	@echo "make test-all       run the tests, the slow ones too"
	@echo "make test-versions  install the wheel on each Python from 3.11 on that is here, and use it"
	@echo "make lint           formatting, types and import rules"
	@echo "make bench          measure speed, as ratios taken in one run, and write docs/speed.md"
	@echo "make bench-before   measure HEAD beside an earlier commit, by turns: make bench-before BASE=HEAD~1"
	@echo "make bench-peers    measure umab beside other libraries and write docs/peers.md"
	@echo "make bench-context  measure learners for contexts beside other libraries; write docs/context.md and docs/keys.md"
	@echo "make coming-from    run the code of docs/coming-from.md, in umab and in other libraries, and write what it prints"
	@echo "make bench-install  measure a fresh installation and write docs/install.md"
	@echo "make bench-service  measure the decision service with wrk and write docs/serve/speed.md"
	@echo "make test-gpu       run the tests that need an NVIDIA GPU; with PYTHON=..., in an environment that is there"
	@echo "make bench-gpu      measure simulations on a GPU, and write that part of docs/speed.md and docs/gpu.md"
	@echo "make dist           build the sdist and the wheel into dist/"
	@echo "make clean          remove the environment and what was built"

reproduce: $(VENV)/.reproduce
	$(BIN)/umab reproduce

paper: reproduce
	$(BIN)/python -m pages.paper report docs

# One process for each core. Each begins with half of the files, whose tests share what is expensive, and helps at the end.
PYTEST := $(BIN)/python -m pytest --numprocesses auto --dist worksteal

test: $(VENV)/.test
	$(BIN)/python tests/warm.py
	$(PYTEST) -m "not slow"

test-all: $(VENV)/.test
	$(BIN)/python tests/warm.py
	$(PYTEST) --hypothesis-profile explore

test-versions: $(VENV)/.test
	$(BIN)/python -m pytest --numprocesses auto --dist loadgroup tests/test_release.py

# The theme would advertise another one.
docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

# Some minutes; the times on the pages are better taken on a machine that does nothing else.
examples: $(VENV)/.examples
	$(BIN)/python -m examples

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

theory: $(VENV)/.report
	$(BIN)/umab certify --search --json src/umab/theory/worst_cases.json
	$(BIN)/python -m pages.theory docs

# $UMAB_DATA or a network for the public tables; the pages say so if stand-ins took their place.
suite: $(VENV)/.reproduce
	$(BIN)/umab suite
	sed 's|(figures/|(suite-|' report-suite/page.md > docs/suite.md
	cp report-suite/figures/development.svg docs/suite-development.svg
	cp report-suite/figures/validation.svg docs/suite-validation.svg
	$(BIN)/umab suite --group changing
	sed 's|(figures/|(suite-|' report-changing/page.md > docs/suite-changing.md
	cp report-changing/figures/changing-development.svg docs/suite-changing-development.svg
	cp report-changing/figures/changing-validation.svg docs/suite-changing-validation.svg
	cp report-changing/results.json docs/suite-changing.json
	$(BIN)/umab suite --group heavy
	sed 's|(figures/|(suite-|' report-heavy/page.md > docs/suite-heavy.md
	cp report-heavy/figures/heavy-development.svg docs/suite-heavy-development.svg
	cp report-heavy/figures/heavy-validation.svg docs/suite-heavy-validation.svg
	cp report-heavy/results.json docs/suite-heavy.json
	$(BIN)/umab suite --group service --trials 20
	sed 's|(figures/|(suite-|' report-service/page.md > docs/suite-service.md
	cp report-service/figures/service-development.svg docs/suite-service-development.svg
	cp report-service/figures/service-validation.svg docs/suite-service-validation.svg
	cp report-service/results.json docs/suite-service.json

# Some minutes; the numbers of the suite are those of docs/suite-changing.json.
changing: $(VENV)/.report
	$(BIN)/python -m pages.changing docs

# About ten minutes.
delays: $(VENV)/.report
	$(BIN)/python -m pages.delays docs

# Some minutes, most of them in river's Python.
latencies: $(VENV)/.reproduce
	$(BIN)/python -m pages.latencies docs

bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks

# Both as wheels, in two processes that take turns.
BASE ?= HEAD~1
bench-before: $(VENV)/.bench
	$(BIN)/python -m benchmarks.before $(BASE)

# A network to install the other libraries, each below .venv-peers (one of them brings gigabytes); then some minutes.
bench-peers: $(VENV)/.bench
	$(BIN)/python -m benchmarks.peers

# A network, as above; an hour, most of which the other libraries take.
bench-context: $(VENV)/.bench
	$(BIN)/python -m benchmarks.context

# A network, as above; then a minute.
coming-from: $(VENV)/.bench
	$(BIN)/python -m benchmarks.coming_from

# From the installed wheel, in an environment of its own.
bench-install: $(VENV)/.test
	$(BIN)/python -m benchmarks.install

# wrk makes the load; it comes with the system's packages. About ten minutes.
bench-service: $(VENV)/.test
	$(BIN)/python -m benchmarks.service

# An NVIDIA GPU. PYTHON=... takes an interpreter that has numba-cuda (and pytest), and installs nothing.
ifeq ($(origin PYTHON),command line)
GPU_PYTHON := PYTHONPATH=src $(PYTHON)
test-gpu bench-gpu:
else
GPU_PYTHON := $(BIN)/python
test-gpu bench-gpu: $(VENV)/.test
endif

test-gpu:
	$(GPU_PYTHON) -m pytest -q -c /dev/null -o pythonpath=$(CURDIR)/tests --rootdir . --confcutdir tests/gpu tests/gpu

bench-gpu:
	$(GPU_PYTHON) -m benchmarks.gpu

# A clean folder, so that it holds one version; the wheel is built from the sdist.
dist: $(VENV)/.test
	rm -rf dist
	$(BIN)/python -m build

clean:
	rm -rf $(VENV) .venv-peers dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -prune -exec rm -rf {} +

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# One stamp an extra: $(VENV)/.test says that the extra [test] of this pyproject.toml is installed.
$(VENV)/.%: pyproject.toml | $(BIN)/python
	$(PIP) --editable '.[$*]'
	@touch $@
