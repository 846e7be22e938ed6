# The front door. CMake does the building; this file names what people want to do.
# BUILD picks the preset for unit, contract, ... : release stats check asan tsan, clang-release ...

SHELL := /bin/bash
BUILD ?= check
JOBS ?= $(shell nproc)
VENV := .venv
PYTHON := $(VENV)/bin/python
PYTEST := $(PYTHON) -m pytest
HAKOBENCH := $(VENV)/bin/hakobench
SUITE ?= quick
LIB := $(CURDIR)/build/lib

# The lanes that real programs are tried under: the default of each engine.
PRELOAD_LANES := hz3_scale hz4

PRESETS := release stats check asan tsan clang-release clang-check clang-asan clang-tsan
ifeq ($(filter $(BUILD),$(PRESETS)),)
$(error BUILD is '$(BUILD)'; allowed: $(PRESETS))
endif

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help run test libs variant check unit contract death stress model preload asm pytests tidy format docs bench venv setup clean distclean

help: ## list the targets
	@echo "make TARGET [BUILD=$(BUILD)] [JOBS=$(JOBS)]"
	@sed -nE 's/^([a-z]+):.*## (.*)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 12
	@echo "  suite-P   build preset P and run all its suites; P is one of:"
	@echo "            $(PRESETS)"

run: setup libs ## build the libraries and show real programs under them and under glibc's malloc
	tools/demo --lib $(LIB)/libhakozuna.so

test: setup tidy suite-release suite-check suite-clang-check suite-asan suite-tsan asm pytests preload ## run every test
	@echo "make test: everything passed"

libs: configure-release ## build the release libraries into build/lib
	cmake --build --preset release -j $(JOBS) --target libs
	cmake --install build/release --prefix build >build/release/install.log

variant: ## a lane with some knobs set otherwise: LANE=scale SET="TRANSFER_LOCKFREE=0 ..."; TEST=1 runs its suites instead
	tools/variant.py $(if $(TEST),--test) --jobs $(JOBS) '$(LANE)' $(SET)

check: suite-check ## build with internal assertions and run all suites

unit contract death stress: build-$(BUILD)
	ctest --preset $(BUILD) -j $(JOBS) -L '^$@$$'
unit: ## unit tests of BUILD
contract: ## the public API, by our names, on glibc and preloaded, of BUILD
death: ## misuse ends with the documented message, of BUILD
stress: ## threads, fork, churn, of BUILD

model: venv build-check ## orders of atomic operations that a scheduler makes, and the models for spin
	ctest --preset check -j $(JOBS) -L '^$@$$'
	$(PYTEST) tests/model

preload: venv libs ## real programs under the release library of each engine
	@# the other engine is tried when one has failed too
	status=0; for lane in $(PRELOAD_LANES); do \
	echo "preload: libhakozuna_$$lane.so"; \
	HZ_LIB=$(LIB)/libhakozuna_$$lane.so $(PYTEST) tests/preload || status=$$?; done; exit $$status

asm: libs ## fast paths of the release libraries against tests/asm/budget.txt
	tools/asm_budget.py --libs $(LIB) tests/asm/budget.txt

pytests: venv libs build-release ## tests of the Python tools
	HZ_LIB=$(LIB)/libhakozuna.so $(PYTEST) tests --ignore tests/preload

tidy: ## house rules, clang-format among them
	tools/tidy.py

format: ## rewrite C and C++ with clang-format
	git ls-files -co --exclude-standard -- '*.c' '*.h' '*.cc' | xargs clang-format -i

docs: ## write the pages that are made from the sources (docs/lanes.md)
	tools/lanes.py

bench: venv libs build-release ## compare allocators: SUITE (quick, seeds, ...; ARGS go to `hakobench run`), then a report
	$(HAKOBENCH) peers
	@mkdir -p build
	@# the report is written when runs have failed too, and then says which
	set -o pipefail; status=0; $(HAKOBENCH) run $(SUITE) $(ARGS) | tee build/bench.out || status=$$?; \
	if [ $$status -le 1 ]; then $(HAKOBENCH) report "$$(tail -n 1 build/bench.out)" || status=$$?; fi; exit $$status

venv: $(VENV)/pyproject.toml ## Python environment of tests and of hakobench
$(VENV)/pyproject.toml: bench/pyproject.toml
	/usr/bin/python3 -m venv --clear $(VENV)
	$(PYTHON) -m pip install --quiet --disable-pip-version-check -e 'bench[test]'
	cp $< $@

setup: ## install the Debian packages that all of this needs
	tools/setup

clean: ## remove everything built
	rm -rf build

distclean: clean ## remove the Python environment and caches too
	rm -rf $(VENV) .cache .pytest_cache
	find . -name __pycache__ -prune -exec rm -rf {} +

configure-%:
	@cmake --preset $* --log-level=WARNING >/dev/null
build-%: configure-%
	cmake --build --preset $* -j $(JOBS)
suite-%: build-%
	ctest --preset $* -j $(JOBS)
