# Two commands do everything on a fresh machine with Python 3.11 or later:
#   make run    builds one network for a two-variable formula, prints the plan and the error, writes out/
#   make test   lint, types, layers and the test suite
#   make studio serves the studio on this machine
#   make bench  runs every benchmark in a short form and writes docs/benchmarks.md (make bench FULL=1: the long forms)
#   make docs   builds the documentation site into out/site, from what is here alone
# make test-extras installs the heavy optional packages into an environment of its own and runs the tests that need them.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: run test test-extras check bench studio docs clean

run: $(STAMP)
	@mkdir -p out
	$(BIN)/softwright approximate "sin(3*x) * exp(-y**2)" x=-1:1 y=-2:2 --tol 1e-6 -o out/model.safetensors --plot out/model.png --page out/model.html

test: check
	$(BIN)/python -m pytest -n auto --maxprocesses 8 --dist worksteal

test-extras:
	test -d .venv-extras || $(PYTHON) -m venv .venv-extras
	.venv-extras/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	.venv-extras/bin/python -m pip install --quiet --disable-pip-version-check -e '.[dev,jax,hf,lens,nnsight,scale,fast]'
	.venv-extras/bin/python -m pytest tests/export tests/contracts/test_exporters.py tests/test_scale.py tests/attention/test_window.py -rs

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

bench: $(STAMP)
	$(BIN)/python benchmarks/all.py $(if $(FULL),--full)

studio: $(STAMP)
	$(BIN)/softwright studio

docs: $(STAMP)
	$(BIN)/python docs/make_site.py out/site

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "softwright needs Python 3.11 or later: make PYTHON=python3.11 ...")'
	test -d $(VENV) || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $(STAMP)

clean:
	rm -rf $(VENV) out
