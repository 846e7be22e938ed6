# hakozuna/hz3/Makefile of the documents. `make documents` links it there; see lay_out.sh.
TREE := $(abspath ../..)
LIBRARY := $(abspath ../../../..)/bench/documents/library.py
HZ3_LDPRELOAD_DEFS_EXTRA ?=

.PHONY: clean all_ldpreload all_ldpreload_scale all_ldpreload_fast all_ldpreload_p32 all_ldpreload_home
# first, because the documents write `make clean all_ldpreload_scale`
clean:
	rm -f $(TREE)/libhakozuna_hz3_*.so
all_ldpreload:
	$(LIBRARY) hz3/scale $(TREE)/libhakozuna_hz3_ldpreload.so '$(HZ3_LDPRELOAD_DEFS_EXTRA)'
# lane home is no lane of the documents: there transfer and central carry what they carry in the documents
all_ldpreload_scale all_ldpreload_fast all_ldpreload_p32 all_ldpreload_home: all_ldpreload_%:
	$(LIBRARY) hz3/$* $(TREE)/libhakozuna_hz3_$*.so '$(HZ3_LDPRELOAD_DEFS_EXTRA)'
