# Every command of this repository. `make` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

BIN := .venv/bin
UV := .tools/bin/uv
PYTEST := $(BIN)/python -m pytest
# A worker that dies is a bug to find. Where pytest-xdist 3.8 replaces it, `loadfile` can wait forever; so it does not.
# In the order of tests/conftest.py: by itself xdist starts with the files of many tests, which are the quick ones.
# Three for two cores: tests of processes wait a fifth of the time.
WORKERS := 3
PARALLEL = --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder --max-worker-restart 0

# TensorFlow Extended imports twice as fast with .pyc files; TFRA and Horovod need Keras 2.
unexport PYTHONDONTWRITEBYTECODE
export TF_USE_LEGACY_KERAS := 1

.PHONY: help
help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## make .venv from requirements.lock; quick if nothing changed
	@bash infra/setup.sh

.PHONY: demo
demo: setup ## generate logs and run the whole pipeline on them, into ./demo
	@$(BIN)/sangam demo demo

.PHONY: test
test: setup ## a real proof of every mechanism, whole pipelines included, without a GPU or a cluster; goal: 15 minutes
	$(PYTEST) $(PARALLEL) -m "not long"

.PHONY: test-fast
test-fast: setup ## the inner loop: no TensorFlow, no processes; goal: 90 s
	$(PYTEST) $(PARALLEL) -m "not slow and not processes and not e2e and not long"

.PHONY: test-long
# Once more as on a processor without AVX-512 and AMX.
WITHOUT_UNITS := tests/trainer_module/dense
test-long: setup ## the tests that `make test` leaves out: every mode's faults, engines, pages in a browser
	$(PYTEST) $(PARALLEL) -m long
	SANGAM_LAYERS=tensorflow $(PYTEST) $(PARALLEL) -m "not long" $(WITHOUT_UNITS)

.PHONY: test-cluster
test-cluster: setup ## tests on a real Kubernetes of one node, made for them; needs Go, root, containerd; ARGS="-k NAME"
	$(BIN)/python -m tests.cluster $(ARGS)

.PHONY: test-package
test-package: setup ## the wheel in an empty environment without a checkout: set-up, init, run, serve, ui, the demo, a package of parts; a draft in the language server of editors; needs a package index, Node.js
	$(PYTEST) tests/package

.PHONY: soak
soak: setup ## train in every mode with random kills, 30 minutes; MINUTES=5, SEED=2, MODES="stale async"
	TF_CPP_MIN_LOG_LEVEL=3 $(BIN)/python -W ignore -m tests.soak --minutes $(or $(MINUTES),30) --seed $(or $(SEED),1) $(MODES)

.PHONY: soak-online
soak-online: setup ## online training with kills and wrong clocks, 30 minutes and 10 without kills; needs Java; MINUTES=5, SEED=2, FILES=1: files that grow and are damaged, no Java
	TF_CPP_MIN_LOG_LEVEL=3 $(BIN)/python -W ignore -m tests.soak.online --minutes $(or $(MINUTES),30) --seed $(or $(SEED),1) $(if $(FILES),--files)

.PHONY: itest-flink
itest-flink: setup ## run the demo on a Flink cluster of this machine; JAR=Beam's job server for Flink 1.19; needs Java 17
	$(BIN)/python -m tests.engines.on_flink $(JAR)

.PHONY: bench
bench: setup ## compare the engine with TFRA and Keras, as ratios within one run; measure many rows; 2 quiet cores, 20 minutes
	TF_CPP_MIN_LOG_LEVEL=3 $(BIN)/python -W ignore -m bench.peers --only sangam sangam_bf16 sangam_horovod tfra tfra_tables tfra_bf16 keras keras_adagrad --output runs/contest.json
	TF_CPP_MIN_LOG_LEVEL=3 $(BIN)/python -W ignore -m bench.engine

.PHONY: bench-peers
bench-peers: setup ## compare with PyTorch, TorchRec, TFRA and Keras, and with the limit of the machine; 2 quiet cores, 20 minutes; ARGS="--repeats 5"
	@bash bench/peers/setup.sh
	TF_CPP_MIN_LOG_LEVEL=3 $(BIN)/python -W ignore -m bench.peers $(ARGS)

.PHONY: bench-serving
bench-serving: setup ## measure evaluation, export of ten million rows, a server of MODEL=<a pushed version of the demo>, its peers and prices; 2 quiet cores, 30 minutes
	@bash bench/peers/setup.sh
	TF_CPP_MIN_LOG_LEVEL=3 taskset -c 0 $(BIN)/python -W ignore -m bench.evaluation build/bench/evaluation 200000
	TF_CPP_MIN_LOG_LEVEL=3 $(BIN)/python -W ignore -m bench.export_scale
	TF_CPP_MIN_LOG_LEVEL=3 $(BIN)/python -W ignore -m bench.serving $(MODEL)
	TF_CPP_MIN_LOG_LEVEL=3 $(BIN)/python -W ignore -m bench.serving_load $(MODEL)
	TF_CPP_MIN_LOG_LEVEL=3 TF_USE_LEGACY_KERAS=1 $(BIN)/python -W ignore -m bench.user_once
	TF_CPP_MIN_LOG_LEVEL=3 $(BIN)/python -W ignore -m bench.soak $(MODEL) --minutes 3
	TF_CPP_MIN_LOG_LEVEL=3 $(BIN)/python -W ignore -m bench.serving_peers $(MODEL)

.PHONY: bench-modes
bench-modes: setup ## measure parameter servers and the modes of training; 2 quiet cores, 30 minutes
	TF_CPP_MIN_LOG_LEVEL=3 $(BIN)/python -W ignore -m bench.parameter_server
	TF_CPP_MIN_LOG_LEVEL=3 $(BIN)/python -W ignore -m bench.parameter_server --load
	TF_CPP_MIN_LOG_LEVEL=3 $(BIN)/python -W ignore -m bench.modes runs/modes

.PHONY: bench-wide
bench-wide: setup ## time the steps of a run with 2,000 features, in runs/wide; 2 quiet cores, 10 minutes
	TF_CPP_MIN_LOG_LEVEL=3 $(BIN)/python -W ignore -m bench.wide runs/wide

.PHONY: bench-ranks
bench-ranks: setup ## measure ranks beside other work, with unequal lists, between two hosts, and a job beside its step, into runs; 2 quiet cores, root, 40 minutes
	TF_CPP_MIN_LOG_LEVEL=3 $(BIN)/python -W ignore -m bench.beside
	TF_CPP_MIN_LOG_LEVEL=3 $(BIN)/python -W ignore -m bench.unequal
	TF_CPP_MIN_LOG_LEVEL=3 $(BIN)/python -W ignore -m bench.between_hosts steps --output runs/between_hosts.json
	TF_CPP_MIN_LOG_LEVEL=3 $(BIN)/python -W ignore -m bench.whole_job runs/whole_job.json

.PHONY: bench-scale
bench-scale: setup ## compute what 1 to 512 ranks give, from the costs in bench/scale_costs.json; docs/scale.md
	TF_CPP_MIN_LOG_LEVEL=3 $(BIN)/python -W ignore -m bench.scale_model

.PHONY: bench-online
bench-online: setup ## measure how fresh predictions are online, and what deltas cost requests; 2 quiet cores, 25 minutes
	TF_CPP_MIN_LOG_LEVEL=3 $(BIN)/python -W ignore -m bench.online_latency runs/online
	TF_CPP_MIN_LOG_LEVEL=3 $(BIN)/python -W ignore -m bench.online_load runs/online

.PHONY: bench-quality
bench-quality: setup ## measure models on real data, and drafts beside trees, into docs/quality.md; several seeds, hours on 2 cores
	TF_CPP_MIN_LOG_LEVEL=3 $(BIN)/python -W ignore -m bench.quality
	@bash bench/quality/peers/setup.sh
	TF_CPP_MIN_LOG_LEVEL=3 $(BIN)/python -W ignore -m bench.quality.peers

.PHONY: bench-freshness
bench-freshness: setup ## measure what deltas each minute, hour and day give, into docs/online.md; 2 quiet cores, 1 hour
	TF_CPP_MIN_LOG_LEVEL=3 $(BIN)/python -W ignore -m bench.freshness

.PHONY: loop
loop: setup ## live a week of the closed loop with kills and bugs, in runs/loop; 2 cores, 3 hours; HOUR=5: seconds of an hour, half an hour; SEED=2
	@rm -rf runs/loop
	TF_CPP_MIN_LOG_LEVEL=3 $(BIN)/python -W ignore -m bench.loop runs/loop --hour $(or $(HOUR),60) --seed $(or $(SEED),1)

.PHONY: lint
lint: setup ## check style, types, imports between packages, structure; changes nothing
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(PYTEST) -q tests/test_structure.py

.PHONY: format
format: setup ## fix what ruff can fix
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: golden
golden: setup ## rewrite the golden files; review the difference
	SANGAM_UPDATE_GOLDEN=1 $(PYTEST) -q -k golden

.PHONY: lock
lock: setup ## resolve pyproject.toml again; an existing uv.lock keeps its versions
	$(UV) lock
	$(UV) export --quiet --format requirements-txt --all-groups --no-emit-project --no-emit-package uv --no-annotate --no-header --locked > requirements.lock.new
	$(UV) export --quiet --format requirements-txt --no-dev --no-emit-project --no-emit-package uv --no-annotate --no-header --locked > requirements.runtime.lock.new
	sed -E '/--hash/d; /^setuptools==/d; s/ \\$$//' requirements.runtime.lock.new > requirements.constraints.new
	$(UV) pip compile --quiet --python-version 3.11 --no-header --no-annotate --generate-hashes --constraint requirements.constraints.new --output-file requirements.build.lock.new infra/horovod-build.in
	sed -n 's/^tensorflow==/tensorflow[and-cuda]==/p' requirements.constraints.new | $(UV) pip compile --quiet --python-version 3.11 --no-header --no-annotate --generate-hashes --constraint requirements.constraints.new - | sed -n '/^nvidia-/,/[^\\]$$/p' > requirements.gpu.lock.new
	rm requirements.constraints.new
	@! grep -nE 'https?://' requirements.lock.new requirements.runtime.lock.new requirements.build.lock.new requirements.gpu.lock.new
	for lock in requirements.lock requirements.runtime.lock requirements.build.lock requirements.gpu.lock; do mv $$lock.new $$lock; done

.PHONY: wheel
wheel: setup ## build dist/sangam-*.whl from this commit; docs/upgrading.md
	$(UV) build --quiet --wheel --out-dir dist .

.PHONY: images
images: ## build and push both images; REGISTRY=registry.example/team, ACCELERATOR=gpu or cpu
	@bash infra/images/build.sh

.PHONY: images-check
images-check: setup ## build both images (cpu) twice, compare them, run the demo in one; root, buildah, debootstrap; 1 hour
	@bash infra/images/check.sh

.PHONY: sbom
sbom: setup ## list the licenses of what the images get; with IMAGE=ARCHIVE what that image holds, as CycloneDX
	@bash infra/sbom/make.sh

.PHONY: vulnerabilities
vulnerabilities: setup ## compare the locks with known vulnerabilities; OSV=osv.dev's all.zip of PyPI, or its folder of records
	@$(BIN)/python infra/sbom/osv.py "$(OSV)"

.PHONY: clean
clean: ## remove files of runs and tools, but not .venv
	rm -rf demo runs build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis *.egg-info
	find . -name __pycache__ -type d -not -path './.venv/*' -not -path './.tools/*' -prune -exec rm -rf {} +
