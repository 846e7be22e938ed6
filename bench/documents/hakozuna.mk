# hakozuna/Makefile of the documents: the benchmark programs in hakozuna/out. `make documents` links it there.
ROOT := $(abspath ../../..)
PROGRAMS := malloc_args malloc_dist mt_remote_malloc

.PHONY: all $(PROGRAMS:%=bench_%)
all: $(PROGRAMS:%=bench_%)
$(PROGRAMS:%=bench_%): bench_%:
	@$(MAKE) --no-print-directory -s -C $(ROOT) configure-release
	cmake --build $(ROOT)/build/release --target bench_random_mixed_$*
	@mkdir -p out
	ln -sf $(ROOT)/build/release/bench/bench_random_mixed_$* out/
