.DEFAULT_GOAL := help
.PHONY: help setup servers demo test check lint crash nightly bench peers lock format

# The first Python on the path that is new enough; only `setup` needs it.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
# Each command line in demo and tests is a process of its own: without byte code each would compile everything.
unexport PYTHONDONTWRITEBYTECODE
# Test processes at the same time; they wait for servers and leases about as long as they compute.
WORKERS ?= 4

help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## Make .venv with everything pinned (done by the others where needed)
	@python="$(PYTHON)"; test -n "$$python" || { echo "Fyke needs Python 3.11 or newer on the path." >&2; exit 2; }; \
	$$python scripts/setup.py

servers: setup
	@$(BIN)/python scripts/servers.py

demo: setup ## Collect from a site on this machine, with faults, and show the proof (under a minute)
	@$(BIN)/fyke demo $(ARGS)

test: setup servers lint ## Everything that must pass: lint, types and all tests
	@failed=0; \
	$(BIN)/pytest -m "serial and not crash_long" $(ARGS) || [ $$? -eq 5 ] || failed=1; \
	$(BIN)/pytest -m "not serial and not crash_long" -n $(WORKERS) $(ARGS) || failed=1; \
	exit $$failed

check: setup lint ## The quick part of `test`: lint, types and unit tests (under a minute)
	$(BIN)/pytest tests/unit -n $(WORKERS) $(ARGS)

lint: setup
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/lint-imports
	$(BIN)/mypy

crash: setup servers ## The long tests: each fault on Redis and PostgreSQL, pairs drawn by seed, outages, chaos
	$(BIN)/pytest -m crash_long -n $(WORKERS) $(ARGS)

# Seconds that faults are done for on each pair of servers, and what the site publishes for that time.
CHAOS_SECONDS ?= 600
CHAOS_ITEMS ?= 20000

nightly: setup servers ## `crash`, then chaos for ten minutes on each pair of servers, with times
	@failed=0; began=$$(date +%s); \
	took() { echo "nightly: $$1 took $$(( $$(date +%s) - began )) s"; began=$$(date +%s); }; \
	$(BIN)/pytest -m crash_long -n $(WORKERS) --durations=10 $(ARGS) || failed=1; took "crash"; \
	for pair in "redis postgres" "redis mariadb" "sql postgres" "sql mariadb"; do \
		$(BIN)/fyke lab chaos --frontier $${pair% *} --ledger $${pair#* } \
			--seconds $(CHAOS_SECONDS) --items $(CHAOS_ITEMS) --settle 3600 || failed=1; \
		took "chaos on $$pair"; \
	done; \
	exit $$failed

bench: setup servers ## Speed and memory, with the machine they were measured on
	$(BIN)/python bench/run.py $(ARGS)

peers: setup servers ## Fyke beside scrapy-redis, Crawlee, feapder and funboost, in one run (about half an hour)
	$(BIN)/python bench/peers/run.py $(ARGS)

lock: setup ## Pin the requirements again (UPGRADE=1: to the newest that fit)
	$(LOCK) -o requirements/core.txt pyproject.toml
	$(LOCK) -o requirements/dev.txt -c requirements/core.txt pyproject.toml requirements/dev.in

# Hashes, but no header and no index: the files name no registry, so that any mirror will do.
LOCK = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
	--no-emit-index-url $(if $(UPGRADE),--upgrade)

format: setup ## Put the code in shape
	$(BIN)/ruff format
	$(BIN)/ruff check --fix
