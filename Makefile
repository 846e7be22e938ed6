# Short names for everyday tasks; CMake does the building.
# BUILD picks the preset for unit, contract, ...: release stats check asan tsan, clang-release ...

SHELL := /bin/bash
BUILD ?= check
JOBS ?= $(shell nproc)
# many tests wait more than they work
TEST_JOBS ?= $(shell expr $(JOBS) + 1)
VENV := .venv
PYTHON := $(VENV)/bin/python
PACKAGING := build/packaging-venv
PYTEST := $(PYTHON) -m pytest
# the tests of one file run one after the other: they share results and files; tests/conftest.py orders the files
BY_FILE := --dist loadfile --no-loadscope-reorder
RUN_PYTESTS = HZ_LIB=$(LIB)/libhakozuna.so $(PYTEST) -n $(TEST_JOBS) $(BY_FILE) --durations 10
# The files of tests/tools that compare the allocator with its documents. The others test scripts.
PAGE_TESTS := $(patsubst %,tests/tools/test_%.py,corners_page counters_page docs failure_page lane_libraries lanes memory readme_figures stats_schema tree) tests/command
TOOL_TESTS := tests/tools $(addprefix --ignore ,$(PAGE_TESTS))
MARK_quick := "not deep"
MARK_deep := deep
HAKOBENCH := $(VENV)/bin/hakobench
SUITE ?= quick
SOAK_SECONDS ?= 7200
FUZZ_SECONDS ?= 600
SEED ?= 1
LIB := $(CURDIR)/build/lib

# The tests with real programs run under these lanes: the default of each engine.
PRELOAD_LANES := hz3_scale hz4
# `make test-apps` takes other lanes and, if BUILD is given, another build.
LANES ?= $(PRELOAD_LANES)
APPS_BUILD := $(if $(filter file,$(origin BUILD)),release,$(BUILD))

PRESETS := release stats check asan tsan clang-release clang-check clang-asan clang-tsan
ifeq ($(filter $(BUILD),$(PRESETS)),)
$(error BUILD is '$(BUILD)'; allowed: $(PRESETS))
endif

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help run test test-deep libs workloads documents documents-measure variant check unit contract death stress soak fuzz model preload guard test-system environments test-apps test-packages newcomer release site arm64 arm64-short riscv64-short musl asm counts pytests pages quick-pages deep-pages packages tools quick-tools hakobench quick-preload deep-preload others-preload tidy format docs bench venv setup setup-run clean distclean

help: ## list targets
	@echo "make TARGET [BUILD=$(BUILD)] [JOBS=$(JOBS)]"
	@sed -nE 's/^([a-z0-9-]+):.*## (.*)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 12
	@echo "  suite-P   build preset P and run all of its suites; P is one of:"
	@echo "            $(PRESETS)"

run: setup-run libs ## build the libraries, then run real programs under glibc's malloc and under ours
	tools/demo --lib $(LIB)/libhakozuna.so

test test-deep:
	@command -v python3 >/dev/null || tools/setup
	@tools/run_tests.py $@ $(STEPS)
test: ## build release and check, and run what is quick: the steps of tests/steps.txt, or STEPS="tidy asm"
test-deep: ## run all other tests: sanitizers, models, clang, other processors, long ones; STEPS as above

libs: configure-release ## build the release libraries into build/lib
	cmake --build --preset release -j $(JOBS) --target libs
	cmake --install build/release --prefix build >build/release/install.log
	cmake --install build/release --prefix build --component tree >>build/release/install.log

documents: libs ## lay out build/documents, in which the command lines of the five documents work as written (bench/documents/README.md)
	bench/documents/lay_out.sh

documents-measure: venv libs build-release ## measure what the five documents ask, on a quiet machine; ARGS="--list", "--level 2", "lockfree-home inbox", ...
	$(PYTHON) bench/documents/measure.py $(ARGS)

variant: ## build a lane with some knobs changed: LANE=scale SET="BIN_COUNT=64 ..."; TEST=1 runs its suites instead
	tools/variant.py $(if $(TEST),--test) --jobs $(JOBS) '$(LANE)' $(SET)

check: suite-check ## build with internal assertions and run all suites

unit contract death stress: build-$(BUILD)
	ctest --preset $(BUILD) -j $(TEST_JOBS) -L '^$@$$'
unit: ## run the unit tests of preset BUILD
contract: ## test the public API in preset BUILD: under our names, on glibc, and preloaded
death: ## test in preset BUILD that misuse ends the program with the documented message
stress: ## run the stress tests of preset BUILD: threads, fork, exit, little memory

soak: configure-check configure-release ## run seeded operations on every lane for SOAK_SECONDS (7200: 2 hours) in all, beginning with SEED
	cmake --build --preset check -j $(JOBS) --target soak
	cmake --build --preset release -j $(JOBS) --target soak
	tools/soak --seconds $(SOAK_SECONDS) --seed $(SEED)

fuzz: configure-clang-check ## run libFuzzer on the default lane of each engine for FUZZ_SECONDS (600) each; inputs in build/fuzz
	cmake --build --preset clang-check -j $(JOBS) --target fuzz
	for lane in $(PRELOAD_LANES); do mkdir -p build/fuzz/$$lane/found && \
	build/clang-check/tests/$$lane.soak --write-inputs build/fuzz/$$lane && \
	build/clang-check/tests/$$lane.fuzz -max_total_time=$(FUZZ_SECONDS) -max_len=400 -verbosity=0 -print_final_stats=1 \
	-artifact_prefix=build/fuzz/$$lane/found/ build/fuzz/$$lane || exit; done

model: venv build-check ## run the model tests, whose scheduler tries orders of atomic operations, and the spin models
	ctest --preset check -j $(TEST_JOBS) -L '^$@$$'
	$(PYTEST) tests/model

# A step of `make test` or `make test-deep` (tests/steps.txt). Each test has one of two labels (cmake/deep_tests.txt, or
# pytest.mark.deep), so each runs in one of the two steps.
quick-%: configure-%
	cmake --build --preset $* -j $(JOBS) --target quick
	ctest --preset $*-quick -j $(TEST_JOBS)
deep-%: build-%
	ctest --preset $*-deep -j $(TEST_JOBS)

# $(call under_each_lane,NAME,FOLDER,WORDS): runs pytest with WORDS under each library in FOLDER, and logs to build/NAME_*.log. The
# runs go side by side, since most of these tests wait. A failure under one library does not skip the others.
under_each_lane = @echo '== $(1) under $(PRELOAD_LANES)'; printf '%s\n' $(PRELOAD_LANES) | xargs -P $(JOBS) -I @ sh -c \
	'HZ_LIB=$(2)/libhakozuna_@.so $(PYTEST) $(3) >build/$(1)_@.log 2>&1' || status=$$?; \
	for lane in $(PRELOAD_LANES); do echo "== $(1): libhakozuna_$$lane.so"; cat build/$(1)_$$lane.log; done; exit $${status:-0}

preload: venv libs ## run real programs under the release library of each engine
	$(call under_each_lane,preload,$(LIB),tests/preload -n 2 $(BY_FILE))

# `make test` has the default library alone; these tests wait more than they work
PRELOAD_PYTESTS = $(PYTEST) tests/preload -n $(shell expr 2 '*' $(JOBS)) $(BY_FILE) --durations 10
quick-preload deep-preload: %-preload: venv libs
	HZ_LIB=$(LIB)/libhakozuna_$(firstword $(PRELOAD_LANES)).so $(PRELOAD_PYTESTS) -m $(MARK_$*)
others-preload: venv libs # the two runs go side by side, since these tests wait
	HZ_LIB=$(LIB)/libhakozuna_hz3_percpu.so $(subst tests/preload ,$(PERCPU_TESTS) ,$(PRELOAD_PYTESTS)) -m $(MARK_quick) >build/preload_percpu.log 2>&1 & \
	other=$$!; status=0; $(foreach lane,$(wordlist 2,9,$(PRELOAD_LANES)),HZ_LIB=$(LIB)/libhakozuna_$(lane).so $(PRELOAD_PYTESTS) || status=$$?;) \
	wait $$other || status=$$?; cat build/preload_percpu.log; exit $$status
# programs with threads and children, servers
PERCPU_TESTS = $(patsubst %,tests/preload/test_%.py,fork python servers threads)

test-system: venv libs ## run programs under other settings of the machine (overcommit, huge pages, ...): as root, on an idle machine
	for lane in $(PRELOAD_LANES); do \
	HZ_SYSTEM=1 HZ_LIB=$(LIB)/libhakozuna_$$lane.so $(PYTEST) tests/preload/test_system_settings.py || exit; done

environments: venv libs ## measure in which containers and sandboxes memory goes back (a table in docs/containers.md): as root, on an idle machine; ARGS="--print", ...
	tools/setup environments
	$(PYTHON) tools/environments_table.py $(ARGS)

guard: venv configure-guard ## build the guard libraries and run programs under them, with and without misuse
	cmake --build --preset guard -j $(JOBS) --target $(addprefix hakozuna_,$(PRELOAD_LANES))
	$(call under_each_lane,guard,$(CURDIR)/build/guard/lib,tests/preload/test_misuse.py tests/preload/test_commands.py)

test-apps: venv configure-$(APPS_BUILD) ## run many more real programs (tests/apps/README.md): LANES=all, BUILD=check, ARGS for pytest
	tools/setup apps
	cmake --build --preset $(APPS_BUILD) -j $(JOBS) --target libs
	HZ_LIB_DIR=build/$(APPS_BUILD)/lib HZ_BUILD=$(APPS_BUILD) HZ_LANES='$(LANES)' $(PYTEST) tests/apps -n $(JOBS) --dist worksteal $(ARGS)

test-packages: venv libs $(PACKAGING)/requirements.txt ## link and install the libraries in all the ways of docs/install.md, and make every package
	tools/setup packaging
	HZ_SLOW=1 $(PYTEST) tests/packages --ignore tests/packages/test_newcomer.py -n $(JOBS) $(BY_FILE) $(ARGS)
	HZ_SLOW=1 $(PYTEST) tests/packages/test_newcomer.py # alone, since it measures time

newcomer: venv ## time the ways of a newcomer in an empty Debian: a clone to the end of `make run`, a package to a preloaded program; as root
	tools/setup packaging
	HZ_SLOW=1 $(PYTEST) -rs tests/packages/test_newcomer.py

release: venv $(PACKAGING)/requirements.txt ## make what a release publishes, from the last commit, in build/dist (CONTRIBUTING.md); MAINTAINER="NAME <ADDRESS>"
	tools/setup packaging
	$(PYTHON) tools/release.py build $(if $(MAINTAINER),--maintainer '$(MAINTAINER)')

site: $(PACKAGING)/requirements.txt ## build the site of docs/ and hakobench/docs/ in build/site
	tools/site_pages.py

arm64: build-arm64 ## cross-build for arm64, and run all suites under qemu-user, which takes long
	ctest --preset arm64 -j $(JOBS)

arm64-short riscv64-short: %-short: configure-%
	cmake --build --preset $* -j $(JOBS) --target short
	ctest --preset $* -j $(TEST_JOBS) -L '^short$$'
arm64-short: ## the same, but only the suites that take seconds
riscv64-short: ## the same for riscv64, with fewer suites

musl: build-musl ## build with musl, and run a program linked statically and one under the preloaded libraries
	ctest --preset musl -j $(JOBS)

asm: libs ## compare the fast paths of the release libraries with tests/asm/budget.txt
	tools/asm_budget.py --libs $(LIB) tests/asm/budget.txt

counts: venv libs workloads ## compare the cost of operations in the release libraries with tests/counts/budget.txt; WRITE=1 writes it
	$(HAKOBENCH) counts --ledger --ours --budget tests/counts/budget.txt $(if $(WRITE),--write-budget)

pytests: pages packages tools hakobench ## run the tests written in Python, except those of `preload` and `test-apps`

pages: venv libs ## test that the documents agree with the sources
	$(RUN_PYTESTS) $(PAGE_TESTS)
quick-pages: venv libs
	$(RUN_PYTESTS) $(PAGE_TESTS) -m $(MARK_quick)
deep-pages: venv libs
	$(RUN_PYTESTS) $(PAGE_TESTS) -m $(MARK_deep)

packages: venv libs build-release # the quick ways to install and link, and the models for spin
	$(RUN_PYTESTS) tests/packages tests/model

tools: venv libs workloads ## test the scripts in tools, bench/documents and bench/coherence
	$(RUN_PYTESTS) $(TOOL_TESTS)
quick-tools: venv libs workloads
	$(RUN_PYTESTS) $(TOOL_TESTS) -m $(MARK_quick)

hakobench: venv libs workloads ## test hakobench
	$(RUN_PYTESTS) hakobench/tests

tidy: ## check the house rules, including clang-format
	tools/tidy.py

format: ## format C and C++ with clang-format
	git ls-files -co --exclude-standard -- '*.c' '*.h' '*.cc' '*.hpp' | xargs clang-format -i

docs: venv ## write the generated pages (docs/lanes.md, docs/counters.md, tables in docs/architecture.md and docs/memory.md, man pages)
	tools/lanes.py
	tools/memory.py
	tools/counters.py
	$(PYTHON) tools/man.py

workloads: configure-release ## build the benchmark programs into build/release/bench
	cmake --build --preset release -j $(JOBS) --target workloads

bench: venv ## compare allocators with SUITE (quick, seeds, ...), then write a report; ARGS go to `hakobench run`
	@# a busy machine is named before minutes are spent on building
	$(PYTHON) -m hakobench.machine $(filter --force,$(ARGS))
	$(MAKE) libs workloads
	$(HAKOBENCH) peers
	@mkdir -p build
	@# if runs fail, the report is still written, and names them
	set -o pipefail; status=0; $(HAKOBENCH) run $(SUITE) $(ARGS) | tee build/bench.out || status=$$?; \
	if [ $$status -le 1 ]; then $(HAKOBENCH) report "$$(tail -n 1 build/bench.out)" || status=$$?; fi; exit $$status

venv: $(VENV)/pyproject.toml ## create the Python environment of the tests and of hakobench
$(VENV)/pyproject.toml: hakobench/pyproject.toml hakobench/constraints.txt tests/requirements.txt
	/usr/bin/python3 -m venv --clear $(VENV)
	$(PYTHON) -m pip install --quiet --disable-pip-version-check -c hakobench/constraints.txt -r tests/requirements.txt -e 'hakobench[test]'
	cp $< $@

# the programs that make and check packages and the site
$(PACKAGING)/requirements.txt: packaging/requirements.txt
	/usr/bin/python3 -m venv --clear $(PACKAGING)
	$(PACKAGING)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	cp $< $@

setup: ## install the Debian packages that these targets need
	tools/setup

setup-run: # only those that `make run` needs
	tools/setup run

clean: ## remove everything built
	rm -rf build

distclean: clean ## clean, and also remove the Python environment and caches
	rm -rf $(VENV) .cache .pytest_cache
	find . -name __pycache__ -prune -exec rm -rf {} +

configure-%:
	@cmake --preset $* --log-level=WARNING >/dev/null
build-%: configure-%
	cmake --build --preset $* -j $(JOBS)
suite-%: build-%
	ctest --preset $* -j $(TEST_JOBS)
