# hakozuna/hz4/Makefile of the documents. `make documents` links it there; see lay_out.sh.
# The documents do not say how they set HZ4_REMOTE_INBOX=0; here it is HZ4_DEFS_EXTRA='-DHZ4_REMOTE_INBOX=0'.
LIBRARY := $(abspath ../../../..)/bench/documents/library.py
HZ4_DEFS_EXTRA ?=

.PHONY: clean all
clean:
	rm -f libhakozuna_hz4.so
all:
	$(LIBRARY) hz4/default $(CURDIR)/libhakozuna_hz4.so '$(HZ4_DEFS_EXTRA)'
