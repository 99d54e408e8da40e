# Each target sets up what it needs on a machine that has only Python 3.11+ and make, and is quick the second time
# (tools/environment.py does that). Everything runs through `python -m`, so the checkout may lie anywhere.

SHELL := /bin/sh
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules

PY := .venv/bin/python
BENCH := curator,ibis,bench
ALL := curator,ibis,studio,bench,dev
QUICK := not server and not browser and not slow
ENVIRONMENT = @set -e; for python in $(PYTHON) python3.13 python3.12 python3.11 python3 python; do \
	if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
		exec $$python tools/environment.py $(1); \
	fi; \
	done; \
	echo "No Python 3.11 or newer was found: install one, or name it with make PYTHON=/path/to/python3 ..." >&2; exit 1

.PHONY: help setup demo test coverage test-heavy test-all lint bench reproduce-quick reproduce docs clean env-demo env-bench env-all

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 18

env-demo:
	$(call ENVIRONMENT,curator)

env-bench:
	$(call ENVIRONMENT,$(BENCH))

env-all:
	$(call ENVIRONMENT,$(ALL))

setup: env-all  ## install everything into .venv

demo: env-demo  ## from records to a release in seconds, on made-up records
	@$(PY) -m quietfield demo

test: env-all  ## all quick tests
	$(PY) -m pytest -m "$(QUICK)" -n 2

coverage: env-all  ## the quick tests, and which lines they reach; fails below the floor in pyproject.toml
	$(PY) -m pytest -m "$(QUICK)" -n 2 --cov --cov-report=term

test-heavy: env-all  ## the tests that need a server, a cluster, a browser or minutes
	$(PY) -m pytest -m "not ($(QUICK))" -n 2 --dist loadfile

test-all: test test-heavy  ## both

lint: env-all  ## style, types, and the border around the curator
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(PY) -c "from importlinter.cli import lint_imports_command; lint_imports_command()" --no-logo
	$(PY) tools/core.py

bench: env-bench  ## side by side with other libraries
	@$(PY) -m benchmarks

reproduce-quick: env-bench  ## the paper's figures and claims, small, into results/quick/
	@$(PY) -m experiments all --quick --jobs 2 --out results/quick
	@$(PY) -m experiments page --out results/quick

reproduce: env-bench  ## the paper's figures at full size, into docs/results/paper/: many hours; goes on where it ended
	@$(PY) -m experiments all --jobs 2 --out docs/results/paper
	@$(PY) -m experiments page --out docs/results/paper

docs: env-all  ## the documentation, into site/
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict --quiet

clean:  ## remove what was built, and .venv
	rm -rf .venv .venv.lock site build dist .coverage .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
