# The commands of the project. `make demo` and `make test` install and build all they need.
# Caches live outside the checkout, keyed by content: NETCLAIM_CACHE (default ~/.cache/netclaim).

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
NETCLAIM_CACHE ?= $(HOME)/.cache/netclaim
export NETCLAIM_CACHE

LOCK_ID := $(shell { $(PYTHON) -c 'import sys; print(sys.version)'; cat requirements.lock; } | sha256sum | cut -c1-16)
VENV := $(NETCLAIM_CACHE)/venv-$(LOCK_ID)
PY := .venv/bin/python

.PHONY: help venv demo up down status test lint format crds reference bench lock clean

help: ## this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-9s %s\n", $$1, $$2}'

venv: .venv/.ready-$(LOCK_ID) ## the locked Python environment

.venv/.ready-$(LOCK_ID): requirements.lock tools/make-venv
	@tools/make-venv "$(PYTHON)" "$(VENV)"
	@ln -sfn "$(VENV)" .venv
	@touch $@

demo: venv ## the whole chain on a local two-node cluster, from a Workload to a ping (INSTALL=helm: from charts and images)
	@$(PY) -m dev demo $(if $(INSTALL),--install $(INSTALL)) $(DEMO_FLAGS)

up: venv ## a local cluster (NODES=0|1|2, default 2) with the programs running
	@$(PY) -m dev up --nodes $(or $(NODES),2)
	@$(PY) -m dev programs up

down: ## end everything that `up` or `demo` started
	@if [ -x $(PY) ]; then $(PY) -m dev down; fi

status: venv ## what runs, and where its files are
	@$(PY) -m dev status

test: venv ## every tier this machine can run; says what it skipped and why
	@$(PY) -m tests.run $(TEST_FLAGS)

lint: venv ## ruff, mypy --strict, import rules, generated files
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy
	@.venv/bin/lint-imports --no-cache
	@tools/check-repository

format: venv ## write code in the house format
	@$(PY) -m ruff format .
	@$(PY) -m ruff check --fix .

crds: venv ## write crds/ from the types
	@$(PY) -m netclaim.api

reference: venv ## write docs/reference/ from types, settings, reasons, metrics and commands
	@$(PY) -m dev.reference

bench: venv ## benchmarks: make bench NAME=...
	@$(PY) -m bench $(NAME)

lock: venv ## write requirements.lock from pyproject.toml (needs uv)
	@uv pip compile pyproject.toml --extra dev --generate-hashes --no-header \
		--python-version 3.11 -o requirements.lock -q

clean: down ## remove what the checkout made (caches stay)
	@rm -rf .venv .run .mypy_cache .ruff_cache .pytest_cache
