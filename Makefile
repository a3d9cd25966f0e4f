# Every target sets up .venv by itself; all it needs is Python 3.10 or newer.
#   make train ARGS="--seed 1"      PYTHON=python3.12 make test

SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help train test test-more test-slow test-lowest check lint types doctests audit speed docs

VENV := .venv
BIN := $(VENV)/bin
TORCH := $(shell grep '^torch==' constraints.txt)
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
MODERN := import sys; sys.exit(sys.version_info < (3, 10))
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11 python3.10; do \
	$$python -c '$(MODERN)' 2>/dev/null && echo $$python && break; done)
ARGS ?=
RESUMED := test_half_the_frames_and_then_the_rest_equal_all_at_once

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

train: $(VENV)/.installed-train ## Train SAC on Pendulum-v1 (ARGS= goes to recipes/sac.py)
	$(BIN)/python recipes/sac.py $(ARGS)

test: $(VENV)/.installed-dev ## Run the essential tests, some minutes (ARGS= goes to pytest)
	$(BIN)/python -m pytest -m "not slow and not more" --numprocesses auto --dist worksteal $(ARGS)

test-more: $(VENV)/.installed-dev ## Run the tests of processes, compilation and combinations (ARGS= goes to pytest)
	$(BIN)/python -m pytest -m "more and not slow" --numprocesses auto --dist worksteal $(ARGS)

test-slow: $(VENV)/.installed-dev ## Run all other tests, an hour on two cores (ARGS= goes to pytest)
	$(BIN)/python -m pytest -m slow --numprocesses auto --dist worksteal $(ARGS)

test-lowest: .venv-lowest/.installed ## Train and resume with the lowest versions of the dependencies
	.venv-lowest/bin/python -m pytest -m "not slow" tests/functional tests/config \
		tests/recipes/test_{acer,discrete_sac,hybrid_sac}.py::$(RESUMED) $(ARGS)
	.venv-lowest/bin/python recipes/sac.py --collector.total_frames 1200 --network.num_cells '[16]' \
		--compile false --evaluation.episodes 1 --logging.progress false \
		--logging.dir .venv-lowest/runs

check: lint types doctests ## Formatting, lint, types, import layers, doctests

lint: $(VENV)/.installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports

types: $(VENV)/.installed-dev
	$(BIN)/mypy

doctests: $(VENV)/.installed-dev
	$(BIN)/python -m pytest --doctest-modules rlkit_sac

# A build such as 2.13.0+cpu is looked up as 2.13.0. What could not be looked up did not pass.
audit: $(VENV)/.installed-dev $(VENV)/.installed-audit ## Known weaknesses of the code and of all that is installed
	$(BIN)/bandit --quiet --configfile pyproject.toml --recursive rlkit_sac recipes
	$(BIN)/python -m pip freeze --exclude-editable | sed 's/+.*//' > $(VENV)/audited.txt
	$(BIN)/pip-audit --progress-spinner off --strict --no-deps --disable-pip \
		--requirement $(VENV)/audited.txt || { echo "error: pip-audit found what it lists above," \
		"or could not look a package up at pypi.org: then nothing is known of it" >&2; exit 1; }

speed: $(VENV)/.installed-benchmarks ## Time training here and in other systems (ARGS= goes to speed.py)
	$(BIN)/python recipes/benchmarks/speed.py $(ARGS)

docs: $(VENV)/.installed-docs ## Build the documentation into site/
	$(BIN)/mkdocs build --strict

$(VENV)/.installed-train: EXTRAS := plots
$(VENV)/.installed-dev: EXTRAS := dev,plots,onnx,video,mujoco,box2d,mo,tensorboard,sweep,ray
$(VENV)/.installed-audit: EXTRAS := audit
$(VENV)/.installed-benchmarks: EXTRAS := benchmarks,mujoco,plots
$(VENV)/.installed-docs: EXTRAS := docs,plots

$(VENV)/.installed-%: $(VENV)/.installed-torch pyproject.toml
	$(PIP_INSTALL) --editable '.[$(EXTRAS)]'
	@touch $@

# torch by its exact version and alone: a range would pull gigabytes of other builds first.
$(VENV)/.installed-torch: constraints.txt
	@test -n "$(PYTHON)" && $(PYTHON) -c '$(MODERN)' 2>/dev/null || { \
		echo "error: Python 3.10 or newer is needed, found $$($(or $(PYTHON),python3) --version 2>&1);" \
		"install one or name it: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP_INSTALL) '$(TORCH)'
	@touch $@

# All versions are given, and pip resolves them at once: it would search long for another set.
.venv-lowest/.installed: constraints-lowest.txt pyproject.toml
	$(PYTHON) -m venv --clear .venv-lowest
	.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check \
		--requirement constraints-lowest.txt --editable .
	@touch $@
