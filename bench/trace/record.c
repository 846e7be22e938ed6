/*
 * record.c - see record.h.
 *
 *   record_order -> recording_start (once per process)
 *   record_write -> slots_take -> chunk_take (when the chunk is full) -> region_get -> region_map
 *
 * Nothing here allocates or takes a lock. A signal handler that interrupts the allocator and allocates (undefined in
 * POSIX, but programs do it) gets its own records, because an atomic addition hands them out.
 */
#define _GNU_SOURCE
#include "record.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { REGIONS_MAX = 1 << 18, LINE_BYTES = 128, FILE_TRIES = 1000 };

enum phase { PHASE_NOT_STARTED, PHASE_STARTING, PHASE_RECORDING, PHASE_OFF };

struct region {
    _Atomic(unsigned char *) base; /* sync: set once by compare-and-swap; NULL: not mapped yet */
    _Atomic uint32_t left_bytes;   /* counter: bytes of chunks that no thread writes to any more */
};

/* All zero before the first event of a process, including a forked child. */
struct recording {
    _Atomic uint32_t phase; /* sync: release when the fields below are ready, and when recording stops */
    uint32_t generation;    /* const after publish: phase */
    struct trace_header *header;
    dev_t device;
    ino_t inode;
    _Atomic uint32_t thread_count;
    _Atomic uint64_t file_used; /* offset of the next chunk */
    char path[PATH_MAX];
    _Alignas(LINE_BYTES) _Atomic uint64_t order; /* the last event number taken */
    _Alignas(LINE_BYTES) struct region regions[REGIONS_MAX];
};

struct self {
    uint32_t generation; /* of the recording that the other fields belong to */
    uint32_t thread;
    uint32_t chunk_bytes; /* size of the next chunk */
    struct trace_chunk *chunk;
    struct trace_chunk *previous; /* full, but code interrupted by a handler may still write a record in it */
    uint64_t previous_offset, chunk_offset;
};

static _Atomic(struct recording *) g_recording; /* sync: set once by compare-and-swap */
static uint32_t g_generation;                   /* of the newest recording; owner: the thread that starts it */

/* Written by the first start and kept for forked children, which may have another environment and directory. */
static char g_base_path[PATH_MAX];
static char g_operators[sizeof((struct trace_header){0}.operators)];
static _Atomic bool g_base_ready; /* sync: release after both are written; a child may be forked in between */

static __thread struct self t_self __attribute__((tls_model("initial-exec")));
static __thread bool t_starting __attribute__((tls_model("initial-exec")));

/* ---- the file --------------------------------------------------------------------------------------------------- */

static void complain(const char *what, const char *path, int error) {
    const char *parts[] = {"hakotrace: cannot record: ", what, " '", path, "': ", strerrordesc_np(error), "\n"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const char *part = parts[i] != NULL ? parts[i] : "unknown error";
        if (write(STDERR_FILENO, part, strlen(part)) < 0) {
            return;
        }
    }
}

/* Appends to a string in a buffer of PATH_MAX; false when it does not fit. */
static bool append(char *path, const char *more) {
    size_t length = strlen(path);
    size_t added = strlen(more);
    if (length + added >= PATH_MAX) {
        return false;
    }
    memcpy(path + length, more, added + 1);
    return true;
}

static bool append_number(char *path, unsigned number) {
    char digits[16];
    char *at = digits + sizeof digits - 1;
    *at = '\0';
    do {
        *--at = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    *--at = '.';
    return append(path, at);
}

/* Makes an absolute path, because the program may change its directory. Returns 0 or an errno. */
static int make_base_path(char *path, const char *asked) {
    path[0] = '\0';
    if (asked[0] != '/') {
        if (getcwd(path, PATH_MAX - 1) == NULL) {
            return errno;
        }
        append(path, "/");
    }
    return append(path, asked) ? 0 : ENAMETOOLONG;
}

/* Creates <base>.<pid>.<n>, where n counts the programs that the process has executed one after another. */
static int create_file(struct recording *recording) {
    char base[PATH_MAX];
    strcpy(base, g_base_path);
    int error = append_number(base, (unsigned)getpid()) ? 0 : ENAMETOOLONG;
    for (unsigned n = 0; error == 0 && n < FILE_TRIES; n++) {
        strcpy(recording->path, base);
        if (!append_number(recording->path, n)) {
            return ENAMETOOLONG;
        }
        int fd = open(recording->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        struct stat status;
        if (fd >= 0 && fstat(fd, &status) == 0) {
            recording->device = status.st_dev;
            recording->inode = status.st_ino;
            close(fd);
            return 0;
        }
        error = errno == EEXIST ? 0 : errno;
    }
    return error != 0 ? error : EEXIST;
}

static int open_again(const struct recording *recording) {
    int fd = open(recording->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    struct stat status;
    if (fd < 0) {
        return -1;
    }
    if (fstat(fd, &status) != 0 || status.st_dev != recording->device || status.st_ino != recording->inode) {
        close(fd);
        errno = ESTALE;
        return -1;
    }
    return fd;
}

/* Allocates disk space before the region is mapped. Otherwise a store to a page without space would kill the program
   (SIGBUS), as would growing the file beyond its size limit (SIGXFSZ). Returns 0 or an errno. */
static int claim_space(int fd, uint64_t offset) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < offset + TRACE_REGION_BYTES) {
        return EFBIG;
    }
    int error;
    do {
        error = posix_fallocate(fd, (off_t)offset, TRACE_REGION_BYTES);
    } while (error == EINTR);
    return error;
}

static unsigned char *region_map(const struct recording *recording, uint64_t index, enum trace_stop *stop) {
    uint64_t offset = index * TRACE_REGION_BYTES;
    int fd = open_again(recording);
    if (fd < 0) {
        *stop = TRACE_STOP_OPEN;
        return NULL;
    }
    int error = claim_space(fd, offset);
    *stop = TRACE_STOP_SPACE;
    unsigned char *base = NULL;
    if (error == 0) {
        void *mapped = mmap(NULL, TRACE_REGION_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);
        *stop = TRACE_STOP_MAP;
        error = errno;
        /* MADV_DONTFORK: a child that inherited the region would write into the parent's file. */
        if (mapped != MAP_FAILED && madvise(mapped, TRACE_REGION_BYTES, MADV_DONTFORK) == 0) {
            base = mapped;
        } else if (mapped != MAP_FAILED) {
            error = errno;
            munmap(mapped, TRACE_REGION_BYTES);
        }
    }
    close(fd);
    errno = error;
    return base;
}

/* ---- start and stop --------------------------------------------------------------------------------------------- */

static void note_program(struct trace_header *header) {
    char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    path[length < 0 ? 0 : length] = '\0';
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    size_t name_length = strlen(name);
    size_t kept = name_length < sizeof header->program ? name_length : sizeof header->program - 1;
    memcpy(header->program, name, kept);
}

/* The dynamic linker resolves these as for the program itself; NULL when no loaded library defines them. */
extern void *operator_new(size_t size) __asm__("_Znwm") __attribute__((weak));
extern void cplusplus_personality(void) __asm__("__gxx_personality_v0") __attribute__((weak));

/* The standard library's operator new calls malloc. Another one may not, and then its allocations are not recorded. */
static void note_operators(void) {
    void *(*function)(size_t) = operator_new;
    void *address;
    Dl_info info;
    memcpy(&address, &function, sizeof address);
    if (address == NULL || cplusplus_personality == NULL || dladdr(address, &info) == 0 || info.dli_fname == NULL) {
        return;
    }
    const char *slash = strrchr(info.dli_fname, '/');
    const char *name = slash != NULL ? slash + 1 : info.dli_fname;
    if (strncmp(name, "libstdc++.so", 12) != 0 && strncmp(name, "libc++", 6) != 0) {
        size_t length = strlen(name);
        memcpy(g_operators, name, length < sizeof g_operators ? length : sizeof g_operators - 1);
    }
}

static void header_fill(struct trace_header *header, bool forked) {
    header->byte_order = TRACE_BYTE_ORDER;
    header->version = TRACE_VERSION;
    header->page_bytes = TRACE_PAGE_BYTES;
    header->record_bytes = sizeof(struct trace_record);
    header->region_bytes = TRACE_REGION_BYTES;
    header->pid = (uint32_t)getpid();
    header->parent_pid = (uint32_t)getppid();
    header->forked = forked;
    atomic_store_explicit(&header->stop_order, UINT64_MAX, memory_order_relaxed);
    note_program(header);
    memcpy(header->operators, g_operators, sizeof header->operators);
    memcpy(header->magic, TRACE_RAW_MAGIC, sizeof header->magic);
}

/* Returns false when nothing is to be recorded; sets `*error` to 0 or an errno. */
static bool base_prepare(int *error) {
    *error = 0;
    if (atomic_load_explicit(&g_base_ready, memory_order_acquire)) {
        return true;
    }
    const char *asked = getenv("HAKOTRACE_FILE");
    if (asked == NULL || asked[0] == '\0') {
        return false;
    }
    *error = make_base_path(g_base_path, asked);
    if (*error == 0) {
        note_operators();
        atomic_store_explicit(&g_base_ready, true, memory_order_release);
    }
    return true;
}

static bool recording_open(struct recording *recording, bool forked) {
    enum trace_stop stop;
    int error;
    if (!base_prepare(&error)) {
        return false;
    }
    error = error == 0 ? create_file(recording) : error;
    unsigned char *base = error == 0 ? region_map(recording, 0, &stop) : NULL;
    if (base == NULL) {
        /* A newly executed program still has the stderr it was given; a forked child may have reused the descriptor. */
        if (!forked) {
            complain("cannot create a file at", g_base_path, error != 0 ? error : errno);
        }
        return false;
    }
    header_fill((struct trace_header *)(void *)base, forked);
    recording->header = (struct trace_header *)(void *)base;
    recording->generation = ++g_generation;
    atomic_store_explicit(&recording->file_used, TRACE_PAGE_BYTES, memory_order_relaxed);
    atomic_store_explicit(&recording->regions[0].base, base, memory_order_relaxed);
    return true;
}

/* NULL when the system cannot give memory that a forked child finds zeroed. */
static struct recording *recording_get(void) {
    struct recording *recording = atomic_load_explicit(&g_recording, memory_order_acquire);
    if (recording != NULL) {
        return recording;
    }
    const size_t bytes = sizeof(struct recording);
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        return NULL;
    }
    if (madvise(memory, bytes, MADV_WIPEONFORK) != 0) {
        munmap(memory, bytes);
        return NULL;
    }
    if (atomic_compare_exchange_strong_explicit(&g_recording, &recording, memory, memory_order_acq_rel,
                                                memory_order_acquire)) {
        return memory;
    }
    munmap(memory, bytes);
    return recording;
}

/* Called by the first event of a process, and by other events until the recording has started. */
static bool recording_start(struct recording *recording) {
    uint32_t expected = PHASE_NOT_STARTED;
    if (atomic_compare_exchange_strong_explicit(&recording->phase, &expected, PHASE_STARTING, memory_order_acquire,
                                                memory_order_acquire)) {
        int saved = errno;
        t_starting = true;
        bool open = recording_open(recording, g_generation > 0);
        t_starting = false;
        errno = saved;
        /* sync: recording; partner: the acquire load in record_order */
        atomic_store_explicit(&recording->phase, open ? PHASE_RECORDING : PHASE_OFF, memory_order_release);
        return open;
    }
    while (expected == PHASE_STARTING && !t_starting) {
        sched_yield();
        expected = atomic_load_explicit(&recording->phase, memory_order_acquire);
    }
    return expected == PHASE_RECORDING;
}

/*
 * The event with this number cannot be written. It and all events with higher numbers are void, so the rest is a
 * consistent beginning. An event that takes no number because it sees PHASE_OFF comes after the event that stopped the
 * recording (release here, acquire in record_order), and so does every event that depends on it.
 */
static void recording_stop(struct recording *recording, uint64_t order, enum trace_stop stop, int error) {
    struct trace_header *header = recording->header;
    uint32_t not_stopped = TRACE_STOP_NOT;
    if (atomic_compare_exchange_strong_explicit(&header->stop, &not_stopped, stop, memory_order_relaxed,
                                                memory_order_relaxed)) {
        atomic_store_explicit(&header->stop_errno, (uint32_t)error, memory_order_relaxed);
    }
    uint64_t lowest = atomic_load_explicit(&header->stop_order, memory_order_relaxed);
    while (order < lowest && !atomic_compare_exchange_weak_explicit(&header->stop_order, &lowest, order,
                                                                    memory_order_relaxed, memory_order_relaxed)) {
    }
    /* sync: stop; partner: the acquire load in record_order */
    atomic_store_explicit(&recording->phase, PHASE_OFF, memory_order_release);
}

/* ---- chunks ----------------------------------------------------------------------------------------------------- */

static unsigned char *region_get(struct recording *recording, uint64_t index, enum trace_stop *stop) {
    if (index >= REGIONS_MAX) {
        *stop = TRACE_STOP_FULL;
        errno = EFBIG;
        return NULL;
    }
    struct region *region = &recording->regions[index];
    unsigned char *base = atomic_load_explicit(&region->base, memory_order_acquire);
    if (base != NULL) {
        return base;
    }
    unsigned char *mapped = region_map(recording, index, stop);
    if (mapped == NULL) {
        return NULL;
    }
    if (atomic_compare_exchange_strong_explicit(&region->base, &base, mapped, memory_order_acq_rel,
                                                memory_order_acquire)) {
        return mapped;
    }
    munmap(mapped, TRACE_REGION_BYTES); /* another thread mapped the region first */
    return base;
}

/* Leaving the last chunk of a region unmaps the region. The first region, with the header, is never left completely. */
static void region_leave(struct recording *recording, uint64_t offset, uint32_t bytes) {
    struct region *region = &recording->regions[offset / TRACE_REGION_BYTES];
    /* sync: region; acquire and release, so that the stores of all threads are done before the last thread unmaps */
    uint32_t before = atomic_fetch_add_explicit(&region->left_bytes, bytes, memory_order_acq_rel);
    if (before + bytes == TRACE_REGION_BYTES) {
        munmap(atomic_load_explicit(&region->base, memory_order_relaxed), TRACE_REGION_BYTES);
    }
}

/* Takes the next `bytes` of the file and returns their offset; skips the rest of a region when it is too small. */
static uint64_t file_take(struct recording *recording, uint32_t bytes) {
    uint64_t used = atomic_load_explicit(&recording->file_used, memory_order_relaxed);
    uint64_t offset, rest;
    do {
        rest = TRACE_REGION_BYTES - used % TRACE_REGION_BYTES;
        offset = rest < bytes ? used + rest : used;
    } while (!atomic_compare_exchange_weak_explicit(&recording->file_used, &used, offset + bytes, memory_order_relaxed,
                                                    memory_order_relaxed));
    if (offset != used) {
        region_leave(recording, used, (uint32_t)rest);
    }
    return offset;
}

/* A thread's first chunk is one page, because some programs have thousands of threads; each further chunk is larger. */
static struct trace_chunk *chunk_take(struct recording *recording, uint64_t order) {
    struct self *self = &t_self;
    if (self->generation != recording->generation) {
        *self = (struct self){.generation = recording->generation, .chunk_bytes = TRACE_PAGE_BYTES};
        self->thread = atomic_fetch_add_explicit(&recording->thread_count, 1, memory_order_relaxed);
    }
    uint32_t bytes = self->chunk_bytes;
    uint64_t offset = file_take(recording, bytes);
    enum trace_stop stop = TRACE_STOP_NOT;
    unsigned char *base = region_get(recording, offset / TRACE_REGION_BYTES, &stop);
    if (base == NULL) {
        recording_stop(recording, order, stop, errno);
        return NULL;
    }
    struct trace_chunk *chunk = (struct trace_chunk *)(void *)(base + offset % TRACE_REGION_BYTES);
    chunk->bytes = bytes;
    chunk->thread = self->thread;
    chunk->magic = TRACE_CHUNK_MAGIC;
    if (self->previous != NULL) {
        region_leave(recording, self->previous_offset, self->previous->bytes);
    }
    self->previous = self->chunk;
    self->previous_offset = self->chunk_offset;
    self->chunk = chunk;
    self->chunk_offset = offset;
    self->chunk_bytes = bytes < TRACE_CHUNK_BYTES_MAX ? bytes * 2 : bytes;
    return chunk;
}

/* `count` adjacent records, or NULL when the recording has just ended. */
static struct trace_record *slots_take(uint64_t order, uint32_t count) {
    struct recording *recording = atomic_load_explicit(&g_recording, memory_order_relaxed);
    struct trace_chunk *chunk = t_self.generation == recording->generation ? t_self.chunk : NULL;
    for (;;) {
        if (chunk != NULL) {
            /* owner: atomic only because of signal handlers that interrupt this thread */
            uint32_t first = atomic_fetch_add_explicit(&chunk->count, count, memory_order_relaxed);
            if (first + count < chunk->bytes / sizeof(struct trace_record)) {
                return &chunk->records[first];
            }
        }
        int saved = errno;
        chunk = chunk_take(recording, order);
        errno = saved;
        if (chunk == NULL) {
            return NULL;
        }
    }
}

/* ---- recording one event ---------------------------------------------------------------------------------------- */

uint64_t record_order(void) {
    struct recording *recording = recording_get();
    if (recording == NULL) {
        return 0;
    }
    /* Check PHASE_OFF first: when nothing is recorded, calls must not write to a cache line that all threads share. */
    uint32_t phase = atomic_load_explicit(&recording->phase, memory_order_acquire);
    if (phase == PHASE_OFF || (phase != PHASE_RECORDING && !recording_start(recording))) {
        return 0;
    }
    /* relaxed: see "Order" in record.h */
    return atomic_fetch_add_explicit(&recording->order, 1, memory_order_relaxed) + 1;
}

void record_fill(struct trace_record *record, uint64_t order, unsigned operation, size_t alignment, const void *address,
                 size_t size) {
    if (record == NULL || order == 0) {
        return;
    }
    bool failed = (operation & TRACE_FAILED) != 0;
    bool aligned = alignment > 1 && (!failed || (alignment & (alignment - 1)) == 0);
    /* memalign accepts any number and aligns to the next power of two. */
    uint64_t align_log2 = aligned ? 64U - (uint64_t)__builtin_clzl(alignment - 1) : 0;
    record->address = (uint64_t)(uintptr_t)address;
    record->size = size;
    atomic_store_explicit(&record->word,
                          order << TRACE_WORD_ORDER_SHIFT | align_log2 << TRACE_WORD_ALIGN_SHIFT | operation,
                          memory_order_release);
}

void record_write(uint64_t order, unsigned operation, size_t alignment, const void *address, size_t size) {
    if (order != 0) {
        record_fill(slots_take(order, 1), order, operation, alignment, address, size);
    }
}

struct trace_record *record_pair(uint64_t order, unsigned operation, const void *address) {
    struct trace_record *pair = order != 0 ? slots_take(order, 2) : NULL;
    if (pair == NULL) {
        return NULL;
    }
    record_fill(pair, order, operation, 0, address, 0);
    return pair + 1;
}

void record_end(void) {
    struct recording *recording = atomic_load_explicit(&g_recording, memory_order_acquire);
    if (recording != NULL && atomic_load_explicit(&recording->phase, memory_order_acquire) == PHASE_RECORDING) {
        atomic_store_explicit(&recording->header->ended, 1, memory_order_relaxed);
    }
}
