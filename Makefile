# Every target makes the virtual environment it needs: a fresh machine has only Python, pip, git and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
CLIENTS := .venv-clients
BROWSER := .venv-browser
SITE := .venv-site
VERIFY := .venv-verify
MSPROBE := .venv-msprobe
RELEASE := .venv-release

.PHONY: demo translations test test-fast test-settings test-cards test-hard test-labels test-affinity test-clients test-native test-newest test-browser lint bench bench-emulator coverage-emulator mutants stress test-verify docs site release clean

$(INSTALLED): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[emulator,tables,editor,dev]'
	touch $@

demo: $(INSTALLED)
	$(BIN)/gpu2npu -i fixtures/mnist_cnn -v 2.1.0 --diff
	$(BIN)/gpu2npu -i fixtures/mnist_cnn -o demo-output -v 2.1.0 --force
	cd demo-output/mnist_cnn_msft && ../../$(BIN)/gpu2npu run train.py

test: $(INSTALLED)
	$(BIN)/python -m pytest -n auto $(TEST_SEED:%=--randomly-seed=%)

# What needs no PyTorch and takes no minute: the migrator, the checks, the rules and the commands.
SLOW := tests/benchmarks tests/emulator tests/fixtures tests/labelled tests/packaging tests/properties tests/verify \
	tests/cli/test_kill.py tests/codemods/affinity/test_affinity_kinds.py tests/codemods/affinity/test_store_results.py \
	tests/codemods/test_ascend_function.py tests/editor/test_server.py tests/project/test_hard_inputs.py \
	tests/report/test_launcher.py tests/cli/test_action.py tests/project/cache/test_answers.py \
	tests/support/test_api_map.py tests/support/test_one_verdict.py tests/support/test_torch_results.py \
	tests/tools/test_agreement.py tests/test_system.py tests/test_torch_server.py
test-fast: $(INSTALLED)
	$(BIN)/python -m pytest -n auto -m "not torch and not long" $(addprefix --ignore=,$(SLOW))

# The suite under other numbers of threads, vector instructions, versions of Python, and on a busy machine: hours.
test-settings: $(INSTALLED)
	$(BIN)/python -m tools.run_settings

# Every fixture for many cards on the CPU and on one, two and four NPUs, with checkpoints exchanged between them.
test-cards: $(INSTALLED)
	GPU2NPU_TEST_CARDS=all $(BIN)/python -m pytest -n auto tests/fixtures/test_many_cards.py \
		tests/fixtures/test_trainings.py tests/fixtures/test_data_parallel.py tests/fixtures/test_recent.py

# 500 files that are hard to edit, and 2,000 with random damage: what is migrated parses, and all of it is listed.
test-hard: $(INSTALLED)
	GPU2NPU_TEST_HARD=all $(BIN)/python -m pytest -n auto tests/properties/test_hard_files.py

# All packages of the labelled set, which are fetched from PyPI: `make test` has the smallest of each round. Ten of them
# for what migrate, check and analyse say about the same places: `make test` has one.
test-labels: $(INSTALLED)
	GPU2NPU_TEST_LABELS=all $(BIN)/python -m pytest -n auto tests/labelled tests/properties/test_labelled_files.py \
		tests/tools/test_agreement.py

# Faults put into a migrated copy, each of which `gpu2npu verify` has to find at its step and module, and copies without
# one, which must not diverge: models of transformers, timm and diffusers too, so in an environment of its own.
$(VERIFY)/.installed: pyproject.toml constraints.txt tests/verify/requirements.txt
	test -x $(VERIFY)/bin/python || $(PYTHON) -m venv $(VERIFY)
	$(VERIFY)/bin/python -m pip install --quiet --constraint constraints.txt --editable '.[emulator,tables,editor,dev]' \
		--requirement tests/verify/requirements.txt
	touch $@

# mindstudio-probe, which reads the dumps of `gpu2npu verify --msprobe`; it says only in its extras that it needs torch.
$(MSPROBE)/.installed: tests/verify/msprobe.txt
	test -x $(MSPROBE)/bin/python || $(PYTHON) -m venv $(MSPROBE)
	$(MSPROBE)/bin/python -m pip install --quiet --requirement tests/verify/msprobe.txt
	touch $@

test-verify: $(VERIFY)/.installed $(MSPROBE)/.installed
	GPU2NPU_TEST_VERIFY=all GPU2NPU_TEST_MSPROBE=$(CURDIR)/$(MSPROBE)/bin/msprobe $(VERIFY)/bin/python -m pytest -n auto --dist loadgroup tests/verify

# The emulated NPU's tests with its library in C++, which is built first; `make test` has them without it.
test-native: $(INSTALLED)
	$(BIN)/python -c "from gpu2npu.emulator.device import native; native.building and native.building.wait()"
	GPU2NPU_TEST_NATIVE=1 $(BIN)/python -m pytest -n auto tests/emulator

# What every kind of affinity rewrite computes, before and after, for 300 random cases each.
test-affinity: $(INSTALLED)
	GPU2NPU_TEST_AFFINITY=all $(BIN)/python -m pytest -n auto tests/codemods/affinity

# Faults put into 500 places of the kernels, the engine and the facts, one at a time: the tests of each have to fail. Less
# than an hour on two cores; a part: make mutants COUNT=60 SEED=2. RECORD=file: a run that was interrupted goes on.
COUNT := 500
SEED := 1
mutants: $(INSTALLED)
	$(BIN)/python -m tools.mutants --count $(COUNT) --seed $(SEED) $(if $(RECORD),--record $(RECORD))

# Other people's software on the emulated NPU (docs/emulator-clients.md), in an environment of its own: PyTorch's newest
# release and the torchvision that fits it, which PyPI has for CUDA (5.5 GB; its torchvision loads beside no other build).
$(CLIENTS)/.installed: pyproject.toml clients/requirements.txt
	test -x $(CLIENTS)/bin/python || $(PYTHON) -m venv $(CLIENTS)
	$(CLIENTS)/bin/python -m pip install --quiet --editable '.[emulator,tables,editor,dev]' \
		--requirement clients/requirements.txt
	touch $@

test-clients: $(CLIENTS)/.installed
	$(CLIENTS)/bin/gpu2npu run --npus 2 -m pytest clients

# The emulator's own tests with it. What plays CUDA's part for `verify` needs a build for the CPU and is skipped.
test-newest: $(CLIENTS)/.installed
	$(CLIENTS)/bin/python -m pytest -n auto tests/emulator tests/fixtures tests/verify

# The pages of `check --format html` and `verify --html` in a headless Chromium, which comes from the system (apt-get install chromium).
$(BROWSER)/.installed: pyproject.toml browser/requirements.txt
	test -x $(BROWSER)/bin/python || $(PYTHON) -m venv $(BROWSER)
	$(BROWSER)/bin/python -m pip install --quiet --editable . --requirement browser/requirements.txt
	touch $@

test-browser: $(BROWSER)/.installed
	test -e $(BROWSER)/node_modules/axe-core || npm install --silent --prefix $(BROWSER) axe-core@4
	AXE=$(BROWSER)/node_modules/axe-core/axe.min.js $(BROWSER)/bin/python -m pytest browser

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tools.house

bench: $(INSTALLED)
	$(BIN)/python -m benchmarks

bench-emulator: $(INSTALLED)
	$(BIN)/python -m benchmarks.emulator

# Jobs on 2, 4 and 8 ranks that end in every way there is; hours on a small machine. A part: make stress RUNS=4 FAILING=3
# RANKS="2 4"; START=fork starts ranks without a launcher, in a tenth of the time. RECORD=file: a run that
# was interrupted goes on with the same file.
RUNS := 100
FAILING := 100
RANKS := 2 4 8
START := torchrun
stress: $(INSTALLED)
	$(BIN)/gpu2npu run --npus 8 -m tools.stress --runs $(RUNS) --failing $(FAILING) --ranks $(RANKS) --start $(START) \
		$(if $(RECORD),--record $(RECORD))

coverage-emulator: $(INSTALLED)
	$(BIN)/python -m tools.emulator_coverage

# The messages of the code and the rules into gpu2npu/locale, and its catalogues compiled.
translations: $(INSTALLED)
	$(BIN)/python -m tools.messages

docs: $(INSTALLED)
	$(BIN)/python -m tools.codemods
	$(BIN)/gpu2npu rules schema > rules/.schema && mv rules/.schema rules/rule.schema.json
	$(BIN)/gpu2npu rules docs -o docs/rules
	$(BIN)/python -m tools.cli_pages docs
	$(BIN)/python -m tools.doc_tables docs
	$(BIN)/python -m tools.diff_picture docs/diff.svg

# The documentation as a site in .site/html; a link or an anchor that leads nowhere fails.
$(SITE)/.installed: docs/requirements.txt
	test -x $(SITE)/bin/python || $(PYTHON) -m venv $(SITE)
	$(SITE)/bin/python -m pip install --quiet --requirement docs/requirements.txt
	touch $@

site: $(SITE)/.installed
	rm -rf .site
	$(SITE)/bin/python -m tools.site_pages .site/pages
	NO_MKDOCS_2_WARNING=1 $(SITE)/bin/mkdocs build --strict --quiet

# The wheel and the sdist in dist/, as docs/releasing.md publishes them.
$(RELEASE)/.installed:
	test -x $(RELEASE)/bin/python || $(PYTHON) -m venv $(RELEASE)
	$(RELEASE)/bin/python -m pip install --quiet build twine
	touch $@

release: $(RELEASE)/.installed
	rm -rf dist
	$(RELEASE)/bin/python -m build
	$(RELEASE)/bin/twine check --strict dist/*

clean:
	rm -rf $(VENV) .test-settings .nox $(CLIENTS) $(BROWSER) $(SITE) $(VERIFY) $(RELEASE) .site dist demo-output .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
