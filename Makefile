# `make demo` and `make test` need Python 3.11 or newer and pip, nothing else.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test quick test-oldest test-newest lint bench docs serve dist clean

demo: .venv/ready
	$(BIN)/srmc sample eight_schools --kernel nuts --out demo-output

test: .venv/tests
	$(BIN)/python -m pytest -n 2 --dist worksteal

# A part of the tests of every package, in a minute and a half.
quick: .venv/tests
	$(BIN)/python -m pytest -n 2 --dist worksteal -m quick

# The oldest and the newest versions that pyproject.toml allows, where they meet our code.
INTERFACES := tests/test_arviz.py tests/plugins tests/models/test_models.py \
  tests/results/test_hierarchical.py tests/results/test_files.py

# The imports come first, since a test skips what it cannot import.
test-oldest test-newest: test-%: .venv-%/ready
	.venv-$*/bin/python -W ignore -c 'import equinox, mlxtend, numpyro, pymc, sklearn'
	.venv-$*/bin/srmc sample --help > .venv-$*/help.txt
	.venv-$*/bin/python -m pytest -n 2 --dist worksteal -W ignore::DeprecationWarning $(INTERFACES)

lint: .venv/tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: .venv/tests
	$(BIN)/srmc bench overhead

docs: .venv-docs/ready
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict

serve: .venv-docs/ready
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs serve --strict

# Wheels and sdists of both distributions; those of the library are installed and tried.
dist:
	rm -rf dist .venv-dist
	$(PYTHON) -m venv .venv-dist
	.venv-dist/bin/python -m pip install --quiet build
	.venv-dist/bin/python -m build --outdir dist .
	.venv-dist/bin/python -m build --outdir dist studies
	for file in dist/srmc-*.whl dist/srmc-*.tar.gz; do \
	  rm -rf .venv-dist && $(PYTHON) -m venv .venv-dist && \
	  .venv-dist/bin/python -m pip install --quiet "$$file"'[all]' && \
	  (cd dist && ../.venv-dist/bin/python ../tests/dist.py && ../.venv-dist/bin/srmc targets) || exit 1; \
	done
	rm -rf .venv-dist

.venv-docs/ready: pyproject.toml
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/python -m pip install --quiet 'mkdocs>=1.6,<2' 'mkdocs-material>=9.5' 'mkdocstrings[python]>=0.27' ruff
	.venv-docs/bin/python -m pip install --quiet --no-deps 'sphinxcontrib-katex>=0.9.10'
	touch $@

# python3.13, where there is one, has versions that older Pythons do not get.
.venv-oldest/ready: VERSIONS := lowest-direct
.venv-newest/ready: VERSIONS := highest
.venv-newest/ready: PYTHON := $(shell python3.13 -c 'print("python3.13")' 2>/dev/null || echo $(PYTHON))
.venv-oldest/ready .venv-newest/ready: pyproject.toml studies/pyproject.toml
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet uv
	$(@D)/bin/uv pip install --quiet --python $(@D)/bin/python --resolution $(VERSIONS) --editable '.[test]' --editable ./studies
	touch $@

.venv/ready: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[all]'
	touch $@

.venv/tests: .venv/ready studies/pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[test]' --editable ./studies
	touch $@

clean:
	rm -rf .venv .venv-docs .venv-dist .venv-oldest .venv-newest dist site demo-output srmc-output
