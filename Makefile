# From nothing but Python 3.11 (or newer) and pip. Each step leaves a stamp in .venv, so a second run installs nothing.
# pip and nothing else: it finds the CPU build of torch where that is what is offered.

VENV := .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/stamps
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
PYTEST_ARGS ?=

.PHONY: help demo test check format bench docs clean
help:
	@echo "make demo     train recipes/digits.py as a job on 2 local workers x 2 processes"
	@echo "make test     run the tests (PYTEST_ARGS='-k name' narrows them)"
	@echo "make check    formatting, lint, types and the floors of the house"
	@echo "make bench    step time and start-up against bare torchrun; the control plane against srun, cat and cp"
	@echo "make docs     write docs/reference/ anew from the code"
	@echo "make clean    remove .venv"

demo: $(STAMPS)/recipes
	$(BIN)/python recipes/digits.py

test: $(STAMPS)/test
	$(BIN)/python -m pytest $(PYTEST_ARGS)

check: $(STAMPS)/dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMPS)/dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMPS)/recipes
	@$(BIN)/python -m compileall -q gpulayer  # as pip does for what it installs
	$(BIN)/python bench/step_time.py
	$(BIN)/python bench/first_step.py
	$(BIN)/python bench/no_op_job.py
	$(BIN)/python bench/crowd.py
	$(BIN)/python bench/placement.py
	$(BIN)/python bench/fleet.py
	$(BIN)/python bench/log_lines.py
	$(BIN)/python bench/artifact.py
	$(BIN)/python bench/bundle.py

docs: $(STAMPS)/dev
	$(BIN)/python docs/reference/generate.py

clean:
	rm -rf $(VENV)

$(STAMPS)/python:
	@found=; for name in $$PYTHON python3.11 python3.12 python3.13 python3; do \
	  if $$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then found=$$name; break; fi; done; \
	if [ -z "$$found" ]; then echo "GPUlayer needs Python 3.11 or newer; set PYTHON=/path/to/python." >&2; exit 1; fi; \
	"$$found" -m venv $(VENV) || { echo "Making .venv failed; on Debian: apt-get install python3-venv." >&2; exit 1; }
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/recipes: $(STAMPS)/python pyproject.toml constraints.txt
	$(PIP_INSTALL) -e '.[recipes]'
	@touch $@

$(STAMPS)/test: $(STAMPS)/python pyproject.toml constraints.txt
	$(PIP_INSTALL) -e '.[recipes,test]'
	@touch $@ $(STAMPS)/recipes

$(STAMPS)/dev: $(STAMPS)/python pyproject.toml constraints.txt
	$(PIP_INSTALL) -e '.[recipes,test,dev]'
	@touch $@ $(STAMPS)/recipes $(STAMPS)/test
