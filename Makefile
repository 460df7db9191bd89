# `make demo` and `make test` need Python 3.11 or newer and pip, nothing else.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint bench docs serve dist clean

demo: .venv/ready
	$(BIN)/srmc sample eight_schools --kernel nuts --out demo-output

test: .venv/ready
	$(BIN)/python -m pytest -n 2 --dist worksteal

lint: .venv/ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: .venv/ready
	$(BIN)/srmc bench overhead

docs: .venv-docs/ready
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict

serve: .venv-docs/ready
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs serve --strict

# A wheel and an sdist, each installed into a new environment and tried there.
dist:
	rm -rf dist .venv-dist
	$(PYTHON) -m venv .venv-dist
	.venv-dist/bin/python -m pip install --quiet build
	.venv-dist/bin/python -m build --outdir dist .
	for file in dist/*.whl dist/*.tar.gz; do \
	  rm -rf .venv-dist && $(PYTHON) -m venv .venv-dist && \
	  .venv-dist/bin/python -m pip install --quiet "$$file" && \
	  (cd dist && ../.venv-dist/bin/python ../tests/dist.py && ../.venv-dist/bin/srmc targets) || exit 1; \
	done
	rm -rf .venv-dist

.venv-docs/ready: pyproject.toml
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/python -m pip install --quiet 'mkdocs>=1.6,<2' 'mkdocs-material>=9.5' 'mkdocstrings[python]>=0.27' ruff
	touch $@

.venv/ready: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[test]'
	touch $@

clean:
	rm -rf .venv .venv-docs .venv-dist dist site demo-output srmc-output
