# Everything runs in .venv; only python3, pip, make and git are needed on the machine.

PYTHON ?= python3
VENV := .venv
CONSTRAINTS := constraints.txt
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
TYPECHECK := .typecheck
BENCH_OUTPUT := .bench

# Files of `make quick`: core, baselines, adapters and judge in under a minute of two cores.
QUICK_WITHOUT_TORCH := test_architecture contract/test_features contract/test_goal contract/test_results agent/test_environment search/test_beam search/test_diverse search/test_refine datasets/test_datasets evaluation/test_judge evaluation/test_tables test_benchmark_table baselines/test_greedy baselines/test_move_table baselines/test_nearest_ct baselines/test_feat_tweak baselines/test_lore trees/test_fast commands/test_explain_onnx
QUICK_WITH_TORCH := test_packaging contract/test_blackbox contract/test_readers agent/test_replay agent/test_local adapters/test_alibi adapters/test_carla contract/test_sklearn_manners test_distributions
# What depends on the versions of the extras, for `make minimum` alone.
EXTRAS_TESTS := trees/test_ensemble baselines/test_mace adapters/test_shap adapters/test_interpret evaluation/test_dask pages/test_plots reproduction/test_covid
# Torch's wheels for another Python can bring gigabytes of CUDA: `make pythons TORCH=no` goes as far as it can without.
# --no-deps, or torch would come as a requirement of the package; every other requirement is pinned.
ifeq ($(TORCH),no)
INSTALL = grep -v '^torch==' $(CONSTRAINTS) | $(BIN)/python -m pip install --quiet --no-deps -e . -r /dev/stdin
QUICK_TESTS := $(QUICK_WITHOUT_TORCH)
else
INSTALL = $(BIN)/python -m pip install --quiet -e '.[dev]' -c $(CONSTRAINTS)
QUICK_TESTS := $(QUICK_WITHOUT_TORCH) $(QUICK_WITH_TORCH)
endif

OLDEST_PYTHON := $(shell sed -n 's/^requires-python = ">=\(.*\)"$$/\1/p' pyproject.toml)
PYTHONS := $(shell sed -n 's/^ *"Programming Language :: Python :: \(3\..*\)",$$/\1/p' pyproject.toml)
MINIMUM := .venv-minimum

.DEFAULT_GOAL := test
.PHONY: venv demo test quick minimum pythons lint types unit bench fuzz mutants figures reproduce lessons clean

venv: $(STAMP)

$(STAMP): pyproject.toml $(CONSTRAINTS)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL)
	touch $@

demo: venv
	$(BIN)/relax-plugin demo

test: lint unit

unit: venv
	$(BIN)/python -m pytest -n 2 --dist loadfile

quick: venv
	$(BIN)/python -m pytest -n 2 --dist loadfile $(QUICK_TESTS:%=tests/%.py)

# The oldest versions that pyproject.toml allows, on the oldest Python: it promises no more than these tests show.
minimum: $(MINIMUM)/minimum.txt
	$(MAKE) quick VENV=$(MINIMUM) CONSTRAINTS=$(MINIMUM)/minimum.txt
	$(MINIMUM)/bin/python -m pytest -n 2 --dist loadfile $(EXTRAS_TESTS:%=tests/%.py)
	$(MINIMUM)/bin/python -m pip check

$(MINIMUM)/minimum.txt: pyproject.toml .ci/minimum_versions.py
	test -x $(MINIMUM)/bin/python || (python=$$(.ci/python_of $(OLDEST_PYTHON)) && $$python -m venv $(MINIMUM))
	$(MINIMUM)/bin/python .ci/minimum_versions.py > $@.part
	mv $@.part $@

# The other supported Pythons, those of them that the machine has.
pythons:
	@for version in $(filter-out $(OLDEST_PYTHON),$(PYTHONS)); do \
		python=$$(.ci/python_of $$version) || continue; \
		$(MAKE) quick PYTHON=$$python VENV=.venv-$$version$(if $(TORCH),-torch-$(TORCH)) || exit 1; \
	done

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

# Small faults put into copies of the code, each of which a named test must notice: some minutes. WHICH=limits is less.
mutants: venv
	PYTHONPATH=tests $(BIN)/python -m mutants.run $(WHICH)

# Quality: the tables about ReLAX itself, some 40 minutes; it can be interrupted and continued. WHAT=core is less.
figures: venv
	$(BIN)/relax-plugin figures $(WHAT) --output $(BENCH_OUTPUT)/figures

# The paper's experiments: says how long it will take, and can be interrupted and continued. QUICK=--quick is shorter.
reproduce: venv
	$(BIN)/relax-plugin reproduce $(QUICK)

# The lessons of examples/ as web pages: run, with their pictures, into lessons/.
lessons: venv
	$(BIN)/python examples/render.py

clean:
	rm -rf build dist $(TYPECHECK) $(BENCH_OUTPUT) lessons .mypy_cache .pytest_cache .ruff_cache .hypothesis .benchmarks *.egg-info
