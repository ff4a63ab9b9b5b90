# Everything runs in .venv; only python3, pip, make and git are needed on the machine.

PYTHON ?= python3
VENV := .venv
CONSTRAINTS := constraints.txt
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
TYPECHECK := .typecheck
BENCH_OUTPUT := .bench
LIVE := .live

# What `make quick` runs: pyproject.toml says what each marker means.
QUICK := not slow and not browser and not install and not dask
# The rooms that depend on the extras: `make minimum` runs what is slow in them too.
ROOMS_OF_EXTRAS := tests/trees tests/baselines tests/adapters tests/evaluation tests/pages
# A worker that is done takes tests from the other, so that neither waits for a long file.
PYTEST = $(BIN)/python -m pytest -n 2 --dist worksteal

# Torch's wheels for another Python can bring gigabytes of CUDA: `make pythons TORCH=no` goes as far as it can without.
# --no-deps, or torch would come as a requirement of the package; every other requirement is pinned.
ifeq ($(TORCH),no)
INSTALL = grep -v '^torch==' $(CONSTRAINTS) | $(BIN)/python -m pip install --quiet --no-deps -e . -r /dev/stdin
PYTEST += --without-torch
else
INSTALL = $(BIN)/python -m pip install --quiet -e '.[dev]' -c $(CONSTRAINTS)
endif

OLDEST_PYTHON := $(shell sed -n 's/^requires-python = ">=\(.*\)"$$/\1/p' pyproject.toml)
PYTHONS := $(shell sed -n 's/^ *"Programming Language :: Python :: \(3\..*\)",$$/\1/p' pyproject.toml)
MINIMUM := .venv-minimum
HOSTS := .venv-hosts

# Its pins are too old to be installed: a test unpacks the wheel and runs CARLA's own Benchmark with our class.
CARLA := carla-recourse==0.0.5

.DEFAULT_GOAL := test
.PHONY: venv demo test quick processors minimum hosts pythons lint size types unit bench fuzz mutants figures reproduce lessons notebooks docs outputs tables screens clean

venv: $(STAMP)

$(STAMP): pyproject.toml $(CONSTRAINTS)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL)
	$(BIN)/python -m pip download --quiet --no-deps --dest $(VENV)/carla $(CARLA)
	touch $@

demo: venv
	$(BIN)/relax-plugin demo

test: lint unit

unit: venv
	$(PYTEST)

quick: venv
	$(PYTEST) -m "$(QUICK)"

# The quick tests as on two other processors, where trained models end in other digits. `make processors RUN=unit` runs
# all tests. The settings and what they change are printed first.
RUN ?= quick
processors: venv
	$(BIN)/python .ci/processors.py $(MAKE) $(RUN)

# The oldest versions that pyproject.toml allows, on the oldest Python: it promises no more than these tests show.
minimum: $(MINIMUM)/minimum.txt
	$(MAKE) quick VENV=$(MINIMUM) CONSTRAINTS=$(MINIMUM)/minimum.txt
	$(MINIMUM)/bin/python -m pytest -n 2 --dist worksteal -m "slow or dask" $(ROOMS_OF_EXTRAS)
	$(MINIMUM)/bin/python -m pip check

$(MINIMUM)/minimum.txt: pyproject.toml .ci/minimum_versions.py
	test -x $(MINIMUM)/bin/python || (python=$$(.ci/python_of $(OLDEST_PYTHON)) && $$python -m venv $(MINIMUM))
	$(MINIMUM)/bin/python .ci/minimum_versions.py > $@.part
	mv $@.part $@

# The face of explainerdashboard, which does not allow our numpy: in an environment with an older one.
hosts:
	test -x $(HOSTS)/bin/python || $(PYTHON) -m venv $(HOSTS)
	sed 's/^numpy==.*/numpy==2.3.5/' $(CONSTRAINTS) > $(HOSTS)/constraints.txt
	$(HOSTS)/bin/python -m pip install --quiet -e '.[dev,dashboard]' -c $(HOSTS)/constraints.txt
	$(HOSTS)/bin/python -m pip check
	$(HOSTS)/bin/python -m pytest tests/adapters/test_explainerdashboard.py

# The other supported Pythons, those of them that the machine has.
pythons:
	@for version in $(filter-out $(OLDEST_PYTHON),$(PYTHONS)); do \
		python=$$(.ci/python_of $$version) || continue; \
		$(MAKE) quick PYTHON=$$python VENV=.venv-$$version$(if $(TORCH),-torch-$(TORCH)) || exit 1; \
	done

# Lines of Python by folder, which may not grow beyond the ceilings of pyproject.toml.
size: venv
	$(BIN)/python .ci/size.py

lint: venv types
	$(BIN)/python .ci/size.py
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# mypy finds a package by its folders, and adapters/ and baselines/ do not lie inside relax_plugin/. So it is shown
# the tree as it will be installed: one folder of links, made anew each time because modules come and go.
types: venv
	rm -rf $(TYPECHECK)
	mkdir -p $(TYPECHECK)/relax_plugin
	ln -s $(CURDIR)/relax_plugin/* $(CURDIR)/adapters $(CURDIR)/baselines $(TYPECHECK)/relax_plugin/
	ln -s $(CURDIR)/benchmarks $(TYPECHECK)/
	cd $(TYPECHECK) && $(CURDIR)/$(BIN)/mypy --strict --config-file $(CURDIR)/pyproject.toml \
		--cache-dir $(CURDIR)/.mypy_cache -p relax_plugin -p benchmarks.figures -p benchmarks.reproduction

# Speed: every benchmark as JSON, and the ratios of what was measured side by side. KEEP=docs/results/speed.csv stores
# them for the documentation; BENCHMARKS=benchmarks/speed/test_speed_of_adapters.py is less.
BENCHMARKS ?= benchmarks/speed
bench: venv
	mkdir -p $(BENCH_OUTPUT)
	$(BIN)/python -m pytest $(BENCHMARKS) --benchmark-only --benchmark-json=$(BENCH_OUTPUT)/benchmarks.json
	$(BIN)/python -m benchmarks.speed.ratios $(BENCH_OUTPUT)/benchmarks.json $(if $(KEEP),--keep $(KEEP))

# Random spaces, models, goals and methods against an oracle of its own, for HOURS; SEED=... runs one round again.
HOURS ?= 0.5
fuzz: venv
	PYTHONPATH=tests $(BIN)/python -m benchmarks.fuzz.run --hours $(HOURS) $(if $(SEED),--seed $(SEED))

# Small faults put into copies of the code, each of which a named test must notice: some minutes. WHICH=limits is less.
mutants: venv
	PYTHONPATH=tests $(BIN)/python -m benchmarks.mutants.run $(WHICH)

# Quality: the tables about ReLAX itself, some 40 minutes; it can be interrupted and continued. WHAT=core is less.
figures: venv
	$(BIN)/relax-plugin figures $(WHAT) --output $(BENCH_OUTPUT)/figures

# The paper's experiments: says how long it will take, and can be interrupted and continued. QUICK=--quick is shorter.
reproduce: venv
	$(BIN)/relax-plugin reproduce --output docs/results $(if $(filter command,$(firstword $(origin QUICK))),$(QUICK))

# The lessons of examples/ as web pages: run, with their pictures, into lessons/.
lessons: venv
	$(BIN)/python examples/render.py

# The lessons as notebooks beside the scripts, run: what GitHub and Colab open. Tests say when they are not current.
notebooks: venv
	$(BIN)/python examples/notebooks.py

# The documentation as a web site in site/, without a network: every link of it is checked, and a warning is an error.
# The pages of the gallery are made first, some minutes, unless nothing has changed since.
docs: venv
	$(BIN)/python docs/live.py $(LIVE)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

# The outputs that README.md and docs/ show, anew: runs their examples and stores what they print.
outputs: venv
	$(BIN)/python -m benchmarks.tables.outputs

# The tables and the picture of README.md and docs/, from the results in docs/results: never typed.
tables: venv
	$(BIN)/python -m benchmarks.tables.tables
	PYTHONPATH=. $(BIN)/python docs/pictures.py

# The photographs of README.md and of the gallery, anew: needs Chromium.
screens: venv
	$(BIN)/python docs/live.py $(LIVE)
	$(BIN)/python docs/screens.py $(LIVE)

clean:
	rm -rf build dist $(LIVE) $(TYPECHECK) $(BENCH_OUTPUT) lessons site .mypy_cache .pytest_cache .ruff_cache .hypothesis .benchmarks *.egg-info
