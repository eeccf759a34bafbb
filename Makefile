# make report      set up .venv, measure this machine for BUDGET (3m; 20m, 1h, none), render the paper; AUTHOR="Jane Doe"
#                  puts a name under its title
# make test        set up .venv, run the tests that are not slow: a worker per core, each with one thread
# make test-all    run the slow ones as well
# make lint        set up .venv, check style, types and workflows
# make gpu-check   on an NVIDIA GPU: run the tests for one, measure for BUDGET; fail if either fails

PYTHON ?= python3
BUDGET ?= 3m
BIN := .venv/bin

.PHONY: report test test-all lint gpu-check benchmark clean

# The same command again measures what the budget left out. ROOFWRIGHT_MADE_BY is what measuring calls that command.
# The name goes by the environment, so that no shell reads it.
ifdef AUTHOR
report: export ROOFWRIGHT_AUTHOR = $(value AUTHOR)
endif
report: .venv/.report
	@ROOFWRIGHT_MADE_BY="make report$(if $(filter file,$(origin BUDGET)),, BUDGET=$(BUDGET))$${ROOFWRIGHT_AUTHOR:+ AUTHOR='$$ROOFWRIGHT_AUTHOR'}" \
	  $(BIN)/python -m measure --quick --budget $(BUDGET)
	@$(BIN)/python -m report

# Bytecode is kept whatever the shell says: without it every process of a test compiles all it imports.
PYTEST = PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --dist worksteal

test: .venv/.test
	$(PYTEST) -m 'not slow'

test-all: .venv/.test
	$(PYTEST)

lint: .venv/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/zizmor --offline --quiet --strict-collection --config .github/zizmor.yml .github action.yml

# Both run, whatever the tests find; it fails if either fails.
gpu-check: .venv/.test
	@ROOFWRIGHT_REQUIRE_GPU=1 $(BIN)/python -m pytest -m gpu; tests=$$?; \
	  $(BIN)/python -m measure --device cuda --quick --budget $(BUDGET) && exit $$tests

benchmark: .venv/.test
	$(BIN)/python benchmarks/speed.py

clean:
	rm -rf .venv _site _figures _cache

.venv/.report: pyproject.toml constraints.txt
	@$(PYTHON) bootstrap.py .venv '.[measure]'
	@touch $@

.venv/.test: pyproject.toml constraints.txt
	@$(PYTHON) bootstrap.py .venv '.[measure,timm,hf,benchmark,cluster,test]'
	@touch $@ .venv/.report
