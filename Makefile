# roofline-bench. `make` alone prints the targets. `make bench` and `make test` each work as the very first command
# on a machine with Python 3.11 or newer: they build the virtual environment, install, and go.
#
#   TORCH=auto|system|cpu|cuda   which torch (see scripts/install/make_venv.py); remembered until it is given again
#   PYTHON=/path/to/python       the interpreter to build on
#   VENV=folder                  another place than .venv
#   BENCH_ARGS='…' TEST_ARGS='…' more arguments for pytest, e.g. BENCH_ARGS='--roofline-shapes standard', TEST_ARGS='-n 8'

VENV ?= .venv
PY := $(VENV)/bin/python
BENCH_ARGS ?=
TEST_ARGS ?=
# Three processes on two cores, as a sixth of the time is waiting; a file to each in turn, in the order of
# tests/conftest.py (TEST_ARGS='-n 0' is one process). A test that hangs fails and shows where it stood.
PYTEST_TESTS := $(PY) -m pytest -n 3 --dist loadfile --no-loadscope-reorder
CHECKED := roofline_model bench_cases plugin results reports roofline_cli roofline_pytest.py roofline_pytest_options.py conftest.py \
	scripts tests benchmarks examples

REPORT := .roofline/report.html
WRITE_REPORT = mkdir -p .roofline && $(PY) -m roofline_cli report -o $(REPORT) && echo "$(CURDIR)/$(REPORT)"

# Progress must be seen when the output goes to a file or a CI log, too.
export PYTHONUNBUFFERED := 1
# Empty is unset: without byte code every process of a run compiles all of our modules anew.
export PYTHONDONTWRITEBYTECODE :=

# The stamps hold the folder's own path (as a checksum): a copied or moved checkout builds its environment anew.
PLACE := $(shell pwd | cksum | cut -d' ' -f1)
MEASURE := $(VENV)/.installed-measure-$(PLACE)
DEV := $(VENV)/.installed-dev-$(PLACE)
INSTALL_DEPENDS := pyproject.toml constraints.txt scripts/install/make_venv.py scripts/install/interpreter_choice.py
# A choice given on the command line or in the environment is looked at each time; it costs 0.1 s.
ifneq ($(strip $(TORCH)$(PYTHON)),)
INSTALL_DEPENDS += ask-again
endif

# The Python that runs the installer: the first that starts (version managers leave shims that do not).
define install
@set -e; for python in "$(PYTHON)" python3 python3.13 python3.12 python3.11 python; do \
	if "$$python" -c "" >/dev/null 2>&1; then \
		exec env PYTHON="$(PYTHON)" "$$python" scripts/install/make_venv.py --venv "$(VENV)" --extra $(1) --torch "$(TORCH)"; \
	fi; \
done; echo "error: no Python found; install Python 3.11 or newer, or name one: PYTHON=/path/to/python" >&2; exit 2
endef

.DEFAULT_GOAL := help
.PHONY: help venv bench report doctor test test-browser test-full check docs readme picture format findings wording choices numbers software-bench clean distclean ask-again

help: ## print this list
	@echo "roofline-bench: predict a kernel, measure it, say which number format wins. Targets:"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "%-22s %s\n", $$1, $$2}'
	@echo "Options: TORCH=auto|system|cpu|cuda  PYTHON=/path/to/python  VENV=folder  BENCH_ARGS='…'  TEST_ARGS='…'"

venv: $(MEASURE) ## build .venv with everything that measuring needs, and stop there
	@echo "$(PY) is ready"

bench: $(MEASURE) ## measure GEMV in every format on this machine, write the report, print its path
	@$(PY) -m roofline_cli calibrate --if-needed || echo "kernels have no expected times; measuring goes on"
	@$(PY) -m pytest bench_cases -k gemv --roofline-require-measured $(BENCH_ARGS); status=$$?; \
	$(WRITE_REPORT) || exit; exit $$status

report: $(MEASURE) ## write the HTML report of the latest run and print its path
	@$(WRITE_REPORT)

doctor: $(MEASURE) ## say what this machine has, which chip it is, what is missing and how to get it
	@$(PY) -m roofline_cli doctor

test: $(DEV) ## run the tests (no GPU, no network; about 10 minutes on two cores)
	@$(PYTEST_TESTS) --timeout 300 $(TEST_ARGS)

test-browser: $(DEV) ## run the tests that drive a chromium (skipped where there is none)
	@$(PYTEST_TESTS) --timeout 300 -m "browser and not full" $(TEST_ARGS)

test-full: $(DEV) ## run all tests, with the full counts (slow)
	@ROOFLINE_FULL=1 $(PYTEST_TESTS) --timeout 3000 -m "" $(TEST_ARGS)

findings: $(DEV) ## write docs/reference/findings.md anew from the catalog of findings
	@$(PY) scripts/docs/make_findings.py

wording: $(DEV) ## write the texts of tests/wording anew: what the surfaces say, to be read in the diff
	@$(PY) -m pytest tests/wording -q --snapshot-update

choices: $(DEV) ## write docs/theory/choices.md anew: the default plan of every chip and model
	@$(PY) scripts/docs/make_choices.py

numbers: $(DEV) ## write docs/reference/numbers.md anew from the chip files and the format catalog
	@$(PY) scripts/docs/make_numbers.py

docs: $(DEV) ## build the documentation as a site in build/docs (warnings are errors)
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build && echo "$(CURDIR)/build/docs/index.html"

readme: $(DEV) ## write the outputs in README and Get started anew, each from the command above it
	@$(PY) scripts/docs/make_readme.py

picture: $(DEV) ## draw docs/images/report.png anew: the report that README shows (needs a chromium)
	@$(PY) scripts/docs/make_report_image.py

check: $(DEV) ## lint, formatting, types and import directions
	@status=0; \
	$(PY) -m ruff check $(wildcard $(CHECKED)) || status=1; \
	$(PY) -m ruff format --check $(wildcard $(CHECKED)) || status=1; \
	$(PY) -m mypy || status=1; \
	$(PY) -c "from importlinter.cli import lint_imports_command as run; run()" || status=1; \
	exit $$status

format: $(DEV) ## format the sources and mend what ruff can mend
	@$(PY) -m ruff check --fix $(wildcard $(CHECKED))
	@$(PY) -m ruff format $(wildcard $(CHECKED))

software-bench: $(DEV) ## time this software itself: overhead per case, collection, store, predictions
	@$(PY) -m benchmarks

clean: ## remove caches and build leftovers (stored results stay)
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .benchmarks
	find . -name __pycache__ -type d -not -path './.venv/*' -not -path './.git/*' -prune -exec rm -rf {} +

distclean: clean ## clean, and remove the virtual environment too (stored results stay)
	rm -rf .venv

# [dev] contains [measure], so one installation serves both.
$(MEASURE): $(INSTALL_DEPENDS)
	$(call install,measure)
	@touch $@

$(DEV): $(INSTALL_DEPENDS)
	$(call install,dev)
	@touch $@ $(MEASURE)

ask-again:
