# Everything starts from Python >= 3.11 and make: the environment is .venv, whatever is activated.
SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help run check test bench bench-guard lint docs soak fuzz clean environment test-environment bench-environment docs-environment

# What a person's shell may have set to point Python elsewhere.
unexport VIRTUAL_ENV PYTHONPATH PYTHONHOME
SUITABLE := import sys; raise SystemExit(sys.version_info < (3, 11))
ifndef PYTHON
PYTHON := $(shell for name in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	if "$$name" -c '$(SUITABLE)' 2>/dev/null; then echo "$$name"; break; fi; done)
endif
FOUND = $(or $(PYTHON),$(error iriai needs Python 3.11 or newer on the PATH, or PYTHON=/path/to/it))
# .venv may be a link to a place that all may enter (scripts/set_up.py); what starts there stays there.
BIN = $(realpath .venv/bin)
PYTEST = $(BIN)/python -m pytest
# Of make check, which computes; two a processor for processes, which mostly wait.
WORKERS ?= 2
PROCESS_WORKERS ?= 4
# NAME=throughput runs benchmarks/throughput.py alone.
NAME ?= *
# The longest a single soak test may take before it counts as hung.
SOAK_TIMEOUT_S := 3600
PROGRAM := src/iriai/launcher/spawn/iriai-exec

help:
	@echo "make run     a demonstration: real work of three accounts on this machine"
	@echo "make check   style, the rules of the house, and all tests of pure packages and of the command"
	@echo "             line: answers in a minute"
	@echo "make test    lint, bench-guard, what check runs, and all tests with processes, root and a network"
	@echo "make lint    style, types, architecture"
	@echo "make docs    the documentation as a site in build/site; warnings are errors"
	@echo "make bench   all benchmarks; NAME=throughput runs one, KEEP=yes keeps what they answer"
	@echo "make bench-guard   counts of what the product does, red where one is above what is stored"
	@echo "make soak    many seeds, long crash loops, stories of the papers: an hour and more"
	@echo "make fuzz    a million hostile inputs, 20,000 or more for each entrance (25 minutes);"
	@echo "             INPUTS=2000 for each, SECONDS=600 in all at most, SEED= repeats a run"
	@echo "make clean   remove the environment that the others made"

run: environment
	@$(BIN)/python examples/demo.py

# Each worker takes half of the tests in their order, then what the other has left: a file is read by
# one of them.
check: test-environment
	$(BIN)/ruff check .
	HYPOTHESIS_PROFILE=quick $(PYTEST) -q -n $(WORKERS) --dist worksteal -m check

# Those that need the machine for themselves come last; what fails beside others has a second try.
test: lint bench-guard
	$(BIN)/python scripts/run_tests.py --workers $(PROCESS_WORKERS) --ignore=tests/architecture

lint: test-environment
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(PYTEST) -q -n $(WORKERS) tests/architecture
	@draft=$$($(BIN)/towncrier build --draft --version unreleased 2>&1) || { echo "$$draft"; exit 1; }

docs: docs-environment
	$(BIN)/python -m scripts.documentation

bench: bench-environment
	@set -e; for file in $(filter-out benchmarks/pair.py benchmarks/guard.py benchmarks/flame_graphs.py,$(wildcard benchmarks/$(NAME).py)); do echo "== $$file" >&2; \
		if [ -z "$(KEEP)" ]; then $(BIN)/python "$$file"; else $(BIN)/python "$$file" | $(BIN)/python -m scripts.performance_page --keep "$$(basename "$$file" .py)"; fi; done

bench-guard: test-environment
	$(BIN)/python benchmarks/guard.py

soak: test-environment
	$(PYTEST) -m soak --timeout $(SOAK_TIMEOUT_S)
	IRIAI_TEST_OPTIMIZE=1 $(PYTEST) tests/conformance tests/security tests/endtoend -m "not soak"

fuzz: test-environment
	$(BIN)/python -m tests.fuzz $(if $(INPUTS),--inputs $(INPUTS)) $(if $(SECONDS),--seconds $(SECONDS)) $(if $(SEED),--seed $(SEED))

clean:
	@$(FOUND) scripts/set_up.py --remove

# Compiled before, since the environment may hold a copy.
environment: $(PROGRAM)
	@$(FOUND) scripts/set_up.py --extra classads --extra plots --extra top

bench-environment: $(PROGRAM)
	@$(FOUND) scripts/set_up.py --extra classads --extra plots --packages benchmarks/debian-packages.txt

test-environment: $(PROGRAM)
	@$(FOUND) scripts/set_up.py --extra classads --extra plots --extra top --extra owner --extra dev --extra docs --packages tests/debian-packages.txt

docs-environment: $(PROGRAM)
	@$(FOUND) scripts/set_up.py --extra classads --extra plots --extra docs

# Installing compiles the C program; this does so again when its source has changed. Without a
# compiler there is none, which is no error.
$(PROGRAM): $(wildcard $(PROGRAM).c src/iriai/launcher/spawn/system-calls.h) scripts/compile_program.py
	@$(FOUND) scripts/compile_program.py
