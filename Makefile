# Everything a user or contributor runs. `make help` lists the targets.

.DEFAULT_GOAL := help
SHELL := /bin/bash
BIN := .venv/bin
# Java's home is known only once `setup` has run, so every recipe reads it when it starts.
WITH_JAVA = export JAVA_HOME="$$(cat .venv/java-home)";

# Tests on Spark wait more than they compute, so two processes share the files; `make test JOBS=0` has one process.
JOBS := 2
PYTEST = $(BIN)/pytest --numprocesses $(JOBS) --dist loadfile --no-loadscope-reorder

.PHONY: help setup demo test test-all lint format bench clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

setup:  ## find or install Java 17+, create .venv, install the pinned packages
	@scripts/setup.sh

demo: setup  ## run the traffic workload on Spark for a minute and check its answer
	@$(WITH_JAVA) $(BIN)/shoal run traffic --on spark --seconds 60 --rate 300000 --check
	@echo
	@echo "Next, with JAVA_HOME=$$(cat .venv/java-home) if java is not on the PATH:"
	@echo "  $(BIN)/shoal run traffic --check --shuffle-bindings   every operator moves before every epoch: same digest"
	@echo "  $(BIN)/shoal run traffic --check --set profile=W3     rush hour; also: W1, W2"
	@echo "  $(BIN)/python examples/quickstart.py                  a query of your own; docs/tutorial.md explains it"

lint: setup  ## ruff, mypy and the import contracts
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

test: lint  ## every check, and the tests that are not slow, with the same random cases each time
	@$(WITH_JAVA) $(PYTEST) -m "not slow" --hypothesis-profile=repeatable

test-all: lint  ## every check and every test, with random cases of its own
	@$(WITH_JAVA) $(PYTEST)

format: setup  ## rewrite the code in the project's style
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: setup  ## run the small variant of every experiment: do they run, are the results right
	@$(WITH_JAVA) for file in experiments/*.yaml; do \
		$(BIN)/shoal experiment run $$file --small || exit 1; done

clean:  ## remove .venv and everything the tools left behind
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .benchmarks \
		build dist spark-warehouse
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
