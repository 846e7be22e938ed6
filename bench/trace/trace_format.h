/*
 * trace_format.h - the file that libhakotrace.so writes and the file that the replay reads;
 * hakobench/docs/trace-format.md describes both.
 *
 * The raw file is mapped and shared, so everything stored in it survives the process, however the process ends. The
 * file is a header page followed by chunks. Each chunk consists of whole pages at a page boundary and belongs to one
 * thread. All numbers have the byte order of the recording machine.
 */
#ifndef TRACE_FORMAT_H
#define TRACE_FORMAT_H

#include <stdatomic.h>
#include <stdint.h>

#define TRACE_RAW_MAGIC  "HAKORAW"
#define TRACE_PLAN_MAGIC "HAKOPLN"

enum {
    TRACE_VERSION = 1,
    TRACE_BYTE_ORDER = 0x01020304,
    TRACE_CHUNK_MAGIC = 0x4b4e4843, /* "CHNK" */
    TRACE_PAGE_BYTES = 4096,        /* page size of the format, independent of the system's */
    TRACE_REGION_BYTES = 1 << 20,   /* the file grows by this much; no chunk crosses a multiple of it */
    TRACE_CHUNK_BYTES_MAX = 1 << 18
};

/* The function that was called. */
enum trace_function {
    TRACE_NONE, /* an unused record */
    TRACE_MALLOC,
    TRACE_CALLOC,
    TRACE_REALLOC,
    TRACE_REALLOCARRAY,
    TRACE_MEMALIGN,
    TRACE_POSIX_MEMALIGN,
    TRACE_ALIGNED_ALLOC,
    TRACE_VALLOC,
    TRACE_PVALLOC,
    TRACE_FREE,
    TRACE_FUNCTION_COUNT
};

/* Flags added to the function in a record. */
enum {
    TRACE_FUNCTION_MASK = 0x0f,
    TRACE_FAILED = 0x10, /* the call returned NULL or an error code */
    TRACE_OLD = 0x20,    /* first record of a pair: the block given to realloc or reallocarray */
    TRACE_NEW = 0x40     /* second record of a pair, right behind the first: the block returned */
};

enum { TRACE_WORD_ALIGN_SHIFT = 8, TRACE_WORD_ORDER_SHIFT = 16 };

struct trace_record {
    uint64_t address; /* 0: NULL */
    uint64_t size;    /* the requested size; for calloc and reallocarray the product, UINT64_MAX if it overflows */
    /* order << 16 | log2(alignment) << 8 | function and flags. 0: the record is unused. */
    _Atomic uint64_t word; /* sync: written last; readers ignore a record whose word is 0 */
};

struct trace_chunk {
    uint32_t magic;
    uint32_t bytes;         /* whole pages, including this header */
    uint32_t thread;        /* number in the order of the threads' first events */
    _Atomic uint32_t count; /* records handed out; may exceed the number that fits */
    uint64_t reserved;
    struct trace_record records[];
};

/* Why the recording ended before the program did. */
enum trace_stop { TRACE_STOP_NOT, TRACE_STOP_SPACE, TRACE_STOP_OPEN, TRACE_STOP_MAP, TRACE_STOP_FULL };

struct trace_header {
    char magic[8];
    uint32_t byte_order;
    uint32_t version;
    uint32_t page_bytes, record_bytes, region_bytes;
    uint32_t pid, parent_pid;
    uint32_t forked;        /* 1: the process began as a fork of a recorded one and inherited its blocks */
    _Atomic uint32_t ended; /* 1: the program ended by exit() or by returning from main */
    _Atomic uint32_t stop;  /* enum trace_stop */
    _Atomic uint32_t stop_errno;
    uint32_t reserved;
    _Atomic uint64_t stop_order; /* order of the first lost event; UINT64_MAX: none */
    char program[256];           /* last component of the program's path */
    char operators[64];          /* file that defines C++'s operator new; empty if it is the standard library */
};

/*
 * The plan of a replay: this header, then all events in one order that agrees with the recording. `hakobench replay`
 * writes it from a checked trace.
 *
 * The file of addresses, which `hakoreplay --addresses` writes for `hakobench locality`, has a uint64_t for each event
 * of the plan: the address of its block after the call, of a TRACE_RELEASE the one that was given back, of a TRACE_NULL
 * 0. All events of the first thread come first, then those of the next.
 */
struct trace_plan {
    char magic[8];
    uint32_t byte_order;
    uint32_t version;
    uint32_t thread_count;
    uint32_t block_count;
    uint64_t event_count;
};

enum trace_kind {
    TRACE_ALLOCATE, /* a new block */
    TRACE_RESIZE,   /* the same block with another size */
    TRACE_RELEASE,  /* the block ends */
    TRACE_NULL,     /* free(NULL) */
    TRACE_KIND_COUNT
};

struct trace_plan_event {
    uint64_t size; /* for TRACE_ALLOCATE and TRACE_RESIZE */
    uint32_t block;
    uint16_t thread;
    uint8_t function_kind; /* function | kind << 4 */
    uint8_t align_log2;    /* 0: the default alignment */
};

_Static_assert(sizeof(struct trace_record) == 24, "records are read from files");
_Static_assert(sizeof(struct trace_chunk) == sizeof(struct trace_record),
               "the header has the size of a record, so the records of a chunk are aligned alike");
_Static_assert(sizeof(struct trace_header) == 384, "the header is read from files");
_Static_assert(sizeof(struct trace_plan) == 32, "the plan is read from files");
_Static_assert(sizeof(struct trace_plan_event) == 16, "the plan is read from files");

#endif /* TRACE_FORMAT_H */
