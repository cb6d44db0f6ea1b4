# Everything sets itself up: `make demo` and `make test` work in a fresh clone.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# The tests start hundreds of processes, each of which would compile the package again without cached bytecode.
unexport PYTHONDONTWRITEBYTECODE
PYTEST = OMP_NUM_THREADS=1 $(BIN)/pytest --numprocesses auto --dist loadfile --no-loadscope-reorder

.PHONY: demo reproduce test tests test-long test-oldest lint bench fault-test tutorials docs docs-serve fuzz clean

demo: $(READY)
	$(BIN)/recombine demo --out demo

reproduce: $(READY)
	$(BIN)/recombine reproduce all --profile quick --out reproduction

# At most six minutes on two cores. `.venv/bin/pytest -m quick` answers in about one. The type checker runs beside the
# first tests.
test: $(READY)
	$(BIN)/python -m tools.ensure_browser
	$(MAKE) --no-print-directory --jobs=2 lint tests

tests: $(READY)
	$(PYTEST)

# What `make test` runs only a sample of: full fault runs, published results, long guides, and all tests with shapes and
# types checked at run time and more generated examples.
test-long: $(READY)
	$(BIN)/python -m tools.ensure_browser
	$(PYTEST) -m long
	$(PYTEST) --jaxtyping-packages=recombine,beartype.beartype --hypothesis-profile=thorough

# The built package with the oldest versions that pyproject.toml allows, in an environment of its own (several GB).
test-oldest: $(READY)
	$(BIN)/python -m tools.installed .venv-oldest --resolution lowest-direct

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/python -m tools.lint_page $(VENV)/lint-page

bench: $(READY)
	$(BIN)/python -m benchmarks --out bench.json

# 100 drivers and 100 workers of a sweep, and 50 of each other command, are killed at random moments (several minutes)
fault-test: $(READY)
	$(BIN)/python -m tests.sweeps.faults --drivers 100 --workers 100 --runs 60 --steps 3000
	$(BIN)/python -m tests.sweeps.command_faults --kills 50

# Generated command lines, files, folders and models: no traceback, no hang, nothing left behind (at most 20 minutes)
fuzz: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzz --cases 10000 --processes 500 --workers 3 --minutes 20

# torch comes first and by its exact version: a range would take a build with several GB of GPU libraries.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt torch==2.13.0
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $(READY)

# Runs the tutorials whose source changed and stores them with their outputs (about a minute each).
tutorials: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m tools.tutorials

# The site: strict, so that a broken link or a wrong docstring fails. It opens from disk: site/index.html.
docs: $(VENV)/.docs-ready
	$(BIN)/python -m tools.generated_docs --check
	$(BIN)/python -m tools.tutorials --check
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

docs-serve: $(VENV)/.docs-ready
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

$(VENV)/.docs-ready: $(READY)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	touch $(VENV)/.docs-ready

clean:
	rm -rf $(VENV) .venv-oldest demo reproduction runs site bench.json
