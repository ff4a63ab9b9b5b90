# Everything runs in .venv; only python3, pip, make and git are needed on the machine.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
TYPECHECK := .typecheck
BENCH_OUTPUT := .bench

.DEFAULT_GOAL := test
.PHONY: venv demo test lint types unit bench fuzz figures reproduce lessons clean

venv: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -e '.[dev]' -c constraints.txt
	touch $@

demo: venv
	$(BIN)/relax-plugin demo

test: lint unit

unit: venv
	$(BIN)/python -m pytest -n 2 --dist loadfile

lint: venv types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# mypy finds a package by its folders, and adapters/ and baselines/ do not lie inside relax_plugin/. So it is shown
# the tree as it will be installed: one folder of links, made anew each time because modules come and go.
types: venv
	rm -rf $(TYPECHECK)
	mkdir -p $(TYPECHECK)/relax_plugin
	ln -s $(CURDIR)/relax_plugin/* $(CURDIR)/adapters $(CURDIR)/baselines $(TYPECHECK)/relax_plugin/
	cd $(TYPECHECK) && $(CURDIR)/$(BIN)/mypy --strict --config-file $(CURDIR)/pyproject.toml \
		--cache-dir $(CURDIR)/.mypy_cache -p relax_plugin

# Speed: every benchmark as JSON, and the ratios of what was measured side by side.
bench: venv
	mkdir -p $(BENCH_OUTPUT)
	$(BIN)/python -m pytest tests/benchmarks --benchmark-only --benchmark-json=$(BENCH_OUTPUT)/benchmarks.json
	$(BIN)/python tests/benchmarks/ratios.py $(BENCH_OUTPUT)/benchmarks.json

# Random spaces, models, goals and methods against an oracle of its own, for HOURS; SEED=... runs one round again.
HOURS ?= 0.5
fuzz: venv
	PYTHONPATH=tests $(BIN)/python -m fuzz.run --hours $(HOURS) $(if $(SEED),--seed $(SEED))

# Quality: the tables of the README about ReLAX, some 25 minutes.
figures: venv
	$(BIN)/relax-plugin bench --output $(BENCH_OUTPUT)/judge
	$(BIN)/relax-plugin figures --output $(BENCH_OUTPUT)

# The paper's experiments: says how long it will take, and can be interrupted and continued. QUICK=--quick is shorter.
reproduce: venv
	$(BIN)/relax-plugin reproduce $(QUICK)

# The lessons of examples/ as web pages: run, with their pictures, into lessons/.
lessons: venv
	$(BIN)/python examples/render.py

clean:
	rm -rf build $(TYPECHECK) $(BENCH_OUTPUT) lessons .mypy_cache .pytest_cache .ruff_cache .hypothesis .benchmarks *.egg-info
