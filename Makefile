# The checks of a change. Needs the test extra: pip install -e ".[test]"
PYTHON ?= python

.PHONY: check format lint types layers test all-tests fix notebooks docs lock

check: format lint types layers test

format:
	$(PYTHON) -m ruff format --check .

lint:
	$(PYTHON) -m ruff check .

types:
	$(PYTHON) -m mypy -p pyspark_savepoint

layers:
	$(PYTHON) -c "from importlinter.cli import lint_imports_command; lint_imports_command()"

test:
	$(PYTHON) -m pytest -n 2 --dist loadfile -m "not flink and not slow"

# Slow tests too, and those with real Flink, which download it: hours on two cores.
all-tests:
	$(PYTHON) -m pytest -n 2 --dist loadfile

fix:
	$(PYTHON) -m ruff check --fix .
	$(PYTHON) -m ruff format .

# Runs the notebooks and keeps their outputs.
notebooks:
	$(PYTHON) -m tests.notebook_runner

# The documentation site, made from READMEs, docstrings and notebooks.
docs:
	$(PYTHON) -m tests.site build/site

# Writes down what CI installs: the newest releases that the bounds in pyproject.toml allow, and the oldest. Needs uv.
COMPILE = uv pip compile pyproject.toml --extra test --extra notebooks --quiet --no-header --no-annotate --no-emit-index-url --no-emit-find-links
lock:
	$(COMPILE) --upgrade --universal --python-version 3.11 --output-file .ci/lock.txt
	$(COMPILE) --upgrade --resolution lowest-direct --python-version 3.11 --output-file .ci/lock-oldest.txt
