# Two commands: `make run` serves the app, `make test` passes the tests. Each sets up everything it needs.
# tests/README.md says what the tests prove and which of them `make test` leaves to `make test-all`.

PORT ?= 7860
VENV ?= .venv
PAIR := smollm2-135m
PY   := $(VENV)/bin/python
PIP  := $(PY) -m pip install --disable-pip-version-check --quiet
# The newest of the usual names that is Python 3.11 or later.
PYTHON ?= $(shell for name in python3 python3.13 python3.12 python3.11 python; do \
	$$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$name && break; done)

# Stamps carry the checksum of what was asked for, so a second run installs nothing.
SUM     := $(shell cat requirements.txt | cksum | cut -d' ' -f1)
SUM_DEV := $(shell cat requirements.txt requirements-dev.txt | cksum | cut -d' ' -f1)
APP     := $(VENV)/.app-$(SUM)
DEV     := $(VENV)/.dev-$(SUM_DEV)

CLUSTER := $(VENV)/.cluster-$(shell cat requirements.txt requirements-cluster.txt | cksum | cut -d' ' -f1)

BIOME_VERSION := 2.6.8
BIOME := $(VENV)/biome-$(BIOME_VERSION)/node_modules/.bin/biome
TSC_VERSION := 7.0.2
TSC := $(VENV)/typescript-$(TSC_VERSION)/node_modules/.bin/tsc

GPU_VENV  ?= .venv-gpu
REHEARSAL := $(GPU_VENV)/.rehearsal-$(SUM_DEV)

.PHONY: run cluster test test-all test-core test-numeric test-cluster test-gpu rehearse-gpu rehearse-servers rehearse-space check map fake picture format bench bench-gpu load clean
.DEFAULT_GOAL := run

run: $(APP)
	@$(PY) -m engine fetch $(PAIR) || echo "The page starts without the weights and tries again on the first run."
	PORT=$(PORT) $(PY) app.py

# The page and several engines on a Ray cluster, here or where RAY_ADDRESS says: make cluster ARGS="--replicas 4 --gpus 1"
cluster: $(CLUSTER)
	$(PY) -m engine fetch $(PAIR)
	$(PY) -m app.cluster --port $(PORT) $(ARGS)

# Two workers, then what measures time, alone. pytest ends with 5 where no test matches ARGS; one of the two may.
# `test-all` runs the slow tests among the others, because each start of pytest costs imports, servers and browsers.
TIMED    = $(if $(filter tests/%,$(ARGS)),,$(shell grep -rl --include='test_*.py' --exclude-dir=cluster 'mark.timing' tests))
PARALLEL = $(PY) -m pytest -n 2 --dist loadgroup --ignore=tests/cluster
export PYTHONDONTWRITEBYTECODE =  # so that the next start need not compile all tests again

test: ONLY = not slow and
test: NONE = No fast test matches; `make test-all ARGS=…` runs the slow ones, too.
test-all: NONE = No test matches.
test test-all: $(DEV)
	$(PY) -m engine fetch $(PAIR)
	@$(PY) tests/browser/chromium.py --install
	$(PARALLEL) -m "$(ONLY) not timing" $(ARGS); first=$$?; test $$first = 0 || test $$first = 5 || exit $$first; \
	$(PY) -m pytest $(TIMED) -m "$(ONLY) timing" $(ARGS); second=$$?; test $$second = 5 || exit $$second; \
	test $$first = 0 || { echo '$(NONE)'; exit 1; }

# What most changes break: the decoder and the page, without a browser, real weights and the tools beside them.
CORE  = tests/engine tests/app tests/lessons $(wildcard tests/test_*.py)
TOOLS = tests/engine/tools tests/engine/models/heads tests/app/lab tests/app/tab
test-core: $(DEV)
	$(PY) -m pytest -n 2 --dist loadgroup $(CORE) $(TOOLS:%=--ignore=%) \
		-m "not (slow or timing or browser or real_weights)" $(ARGS)

# The tests of passes and of sampling once more: the plainest kernels of torch and MKL add up in another order.
# Constraints and refusals add nothing up.
test-numeric: $(DEV)
	MKL_CBWR=COMPATIBLE ATEN_CPU_CAPABILITY=default $(PARALLEL) -m "not slow and not timing" \
		tests/engine/models tests/engine/sampling tests/helpers --ignore-glob='*_constraint_*' --ignore-glob='*refusals*' $(ARGS)

# The cluster's own behaviour, with two engines on this machine.
test-cluster: $(DEV) $(CLUSTER)
	$(PY) -m pytest tests/cluster $(ARGS)

# What only CUDA can show; fails where there is none.
test-gpu: $(DEV)
	@$(PY) -c "import torch, sys; sys.exit(not torch.cuda.is_available() and 'test-gpu needs a CUDA device')"
	$(PY) -m pytest -m gpu $(ARGS)

# The CUDA path on fake tensors: torch's CUDA build, but no GPU. "===" refuses a CPU build of the same version.
TORCH_CUDA := $(subst ==,===,$(shell grep '^torch==' requirements.txt))
rehearse-gpu: $(REHEARSAL)
	$(GPU_VENV)/bin/python -m pytest -n 2 -m rehearse tests/rehearsal $(ARGS)

$(REHEARSAL):
	@test -n "$(PYTHON)" || { echo "SpecLens needs Python 3.11 or later on the PATH."; exit 1; }
	@echo "Downloading torch's CUDA build into $(GPU_VENV): 3 GB, 5 GB installed, no GPU needed; once, some minutes."
	@$(PYTHON) -m venv $(GPU_VENV)
	@$(GPU_VENV)/bin/python -m pip install --disable-pip-version-check --quiet \
		-r requirements.txt -r requirements-dev.txt "$(TORCH_CUDA)"
	@rm -f $(GPU_VENV)/.rehearsal-*
	@touch $@

# A Space's first minute: installed and started as it is there, and measured. Five minutes, on a quiet machine.
rehearse-space: $(DEV)
	PYTHONPATH=.:tests/helpers:tests/browser $(PY) tests/space/rehearse.py $(ARGS)

# Recording and checking real servers, which are installed elsewhere:
# make rehearse-servers VLLM=PATH/TO/vllm LLAMA=PATH/TO/llama-server, or one of the two
rehearse-servers: $(DEV)
	@test -n "$(VLLM)$(LLAMA)" || { echo "Name an installed server: make rehearse-servers VLLM=PATH/TO/vllm"; exit 1; }
	$(PY) -m engine fetch $(PAIR)
	PYTHONPATH=.:tests/helpers $(PY) tests/servers/rehearse.py $(if $(VLLM),--vllm "$(VLLM)") \
		$(if $(LLAMA),--llama-server "$(LLAMA)") $(ARGS)

check: $(DEV)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m ty check --python $(VENV)
	$(PY) tests/check_prose.py
	@if $(MAKE) -s $(BIOME) $(TSC) 2>/dev/null; then \
		$(BIOME) ci --error-on-warnings && $(TSC) -p assets/web/jsconfig.json; else \
		echo "assets/web was not checked: npm brings Biome and TypeScript, and is not here or has no network."; \
		test -z "$(REQUIRE_NPM)"; fi

# Checks and formats the browser's code (biome.json); one binary, which npm brings.
$(BIOME):
	@npm install --prefix $(VENV)/biome-$(BIOME_VERSION) --silent --no-audit --no-fund @biomejs/biome@$(BIOME_VERSION)

# Checks the types of the browser's modules (assets/web/jsconfig.json).
$(TSC):
	@npm install --prefix $(VENV)/typescript-$(TSC_VERSION) --silent --no-audit --no-fund typescript@$(TSC_VERSION)

# The page on a made-up engine, at http://127.0.0.1:7870.
fake: $(DEV)
	PYTHONPATH=.:tests/helpers:tests/browser $(PY) tests/browser/fake_app.py

# The README's picture, of today's page.
picture: $(DEV)
	@$(PY) -m engine fetch $(PAIR)
	@$(PY) tests/browser/chromium.py --install
	PYTHONPATH=.:tests/helpers:tests/browser $(PY) tests/browser/picture.py

# Which package imports which: entries, arrows and circles.
map: $(DEV)
	@$(PY) tests/helpers/import_map.py

format: $(DEV)
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .
	@$(MAKE) --no-print-directory $(BIOME) && $(BIOME) check --write

bench: $(APP)
	$(PY) -m engine fetch $(PAIR)
	@mkdir -p out
	$(PY) -m engine bench --pair $(PAIR) --methods none,ngram,hf,hf-lookup --prompts assets/data/prompts.jsonl \
		--max-new-tokens 128 --temperature 0 --out out/bench.json $(ARGS)

# On a GPU: what passes cost, every method beside transformers, and speedups at an α set by hand, which go on where they
# were stopped. A larger pair: make bench-gpu PAIR=qwen3-8b GPU_METHODS=none,ngram,lm,eagle,auto,hf
GPU_METHODS ?= none,ngram,lm,eagle,eagle-chain,medusa,block,exit,auto,hf,hf-lookup,hf-assisted
bench-gpu: $(APP)
	$(PY) -m engine fetch $(PAIR)
	@mkdir -p out
	$(PY) -m engine calibrate --pair $(PAIR) --device cuda --again
	$(PY) -m engine bench --pair $(PAIR) --device cuda --methods $(GPU_METHODS) --no-trace \
		--prompts assets/data/prompts.jsonl --limit 12 --max-new-tokens 128 --out out/bench-gpu.json $(ARGS)
	$(PY) -m engine lab synthetic --pair $(PAIR) --device cuda --alphas 0.5,0.7,0.8,0.9 --gammas 1,4,8 --repeats 3 \
		--max-new-tokens 128 --out out/bench-gpu-alpha.jsonl

# Many users at once over the public API, each with a prompt of their own: make load USERS=30
USERS ?= 30
load: $(DEV)
	$(PY) -m engine fetch $(PAIR)
	PYTHONPATH=.:tests/helpers:tests/browser $(PY) tests/browser/load.py --users $(USERS) $(ARGS)

$(PY):
	@test -n "$(PYTHON)" || { echo "SpecLens needs Python 3.11 or later on the PATH."; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
		echo "Python cannot make a virtual environment; on Debian or Ubuntu: apt-get install python3-venv"; exit 1; }

$(APP): | $(PY)
	@echo "Installing what the app needs; the first time takes a few minutes."
	@$(PIP) -r requirements.txt
	@rm -f $(VENV)/.app-*
	@touch $@

$(DEV): $(APP)
	@echo "Installing the test tools."
	@$(PIP) -r requirements-dev.txt
	@rm -f $(VENV)/.dev-*
	@touch $@

$(CLUSTER): $(APP)
	@echo "Installing Ray."
	@$(PIP) -r requirements-cluster.txt
	@rm -f $(VENV)/.cluster-*
	@touch $@

clean:
	rm -rf $(VENV) $(GPU_VENV) out
