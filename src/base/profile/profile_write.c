/*
 * profile_write.c - see profile_write.h.
 *
 * The stream has numbers as LEB128, so a number below 128 takes one byte.
 */
#define _GNU_SOURCE
#include "base/profile/profile_write.h"

#include "base/os/hooks.h"
#include "base/os/os.h"
#include "base/os/random.h"
#include "base/os/syscall.h"
#include "base/process/process.h"
#include "base/profile/callstack.h"
#include "base/profile/profile.h"
#include "base/profile/profile_flow.h"
#include "base/profile/profile_sites.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { STREAM_VERSION = 2, RECORD_END = 0, RECORD_MAPPING = 1, RECORD_SITE = 2, RECORD_PAIR = 3, RECORD_THREAD = 4 };

static const char stream_magic[8] = {'\x7f', 'h', 'a', 'k', 'o', 'p', 'r', 'f'};

enum { STREAM_BYTES = 4096, STREAM_TO_MEMORY = -1 };

struct stream {
    int fd;    /* STREAM_TO_MEMORY: all stays in the buffer */
    int error; /* errno of the first failed write, or 0 */
    size_t used;
    size_t room; /* of the buffer */
    char *buffer;
};

static void stream_flush(struct stream *stream) {
    if (stream->error == 0)
        stream->error = stream->fd == STREAM_TO_MEMORY ? ENOSPC : hz_os_write(stream->fd, stream->buffer, stream->used);
    stream->used = 0;
}

static void put_bytes(struct stream *stream, const void *bytes, size_t length) {
    const char *from = bytes;
    while (length > 0) {
        size_t part = hz_min(length, stream->room - stream->used);
        memcpy(stream->buffer + stream->used, from, part);
        stream->used += part;
        from += part;
        length -= part;
        if (stream->used == stream->room)
            stream_flush(stream);
    }
}

static void put_varint(struct stream *stream, uint64_t number) {
    enum { BITS = 7, MORE = 1 << BITS };
    for (; number >= MORE; number >>= BITS)
        put_bytes(stream, &(char){(char)(number % MORE + MORE)}, 1);
    put_bytes(stream, &(char){(char)number}, 1);
}

/* Small for numbers near 0, of either sign. */
static void put_difference(struct stream *stream, uint64_t to, uint64_t from) {
    uint64_t difference = to - from;
    put_varint(stream, difference << 1 ^ (0 - (difference >> 63)));
}

static void put_string(struct stream *stream, const char *text, size_t length) {
    put_varint(stream, length);
    put_bytes(stream, text, length);
}

/* ---- mappings ---------------------------------------------------------------------------------------- */

/* The build id in a segment of notes; its length is 0 if there is none. */
static void build_id_find(const char *notes, size_t bytes, const char **id, size_t *length) {
    size_t at = 0;
    while (at + sizeof(Elf64_Nhdr) <= bytes) {
        Elf64_Nhdr note;
        memcpy(&note, notes + at, sizeof(note));
        const char *name = notes + at + sizeof(note);
        const char *content = name + hz_round_up(note.n_namesz, 4);
        at = (size_t)(content - notes) + hz_round_up(note.n_descsz, 4);
        if (at > bytes || note.n_type != NT_GNU_BUILD_ID || note.n_namesz != 4 || memcmp(name, "GNU", 4) != 0)
            continue;
        *id = content;
        *length = note.n_descsz;
        return;
    }
}

struct mappings {
    struct stream *stream;
    bool is_first;
};

/* For each file in memory, its executable segments. */
static int put_file(struct dl_phdr_info *info, size_t size, void *context) {
    struct mappings *mappings = context;
    char path[512];
    const char *name = info->dlpi_name;
    size_t length = strlen(name);
    const char *id = NULL;
    size_t id_length = 0;
    (void)size;
    if (mappings->is_first && !hz_os_is_confined()) { /* the program itself, which has no name here */
        long got = HZ_SYSCALL6(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", path, sizeof(path), 0, 0);
        name = got > 0 ? path : name;
        length = got > 0 ? (size_t)got : length;
    }
    mappings->is_first = false;
    for (unsigned i = 0; i < info->dlpi_phnum && id_length == 0; i++)
        if (info->dlpi_phdr[i].p_type == PT_NOTE)
            build_id_find((const char *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr), /* NOLINT */
                          info->dlpi_phdr[i].p_memsz, &id, &id_length);
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type != PT_LOAD || (segment->p_flags & PF_X) == 0)
            continue;
        put_varint(mappings->stream, RECORD_MAPPING);
        put_varint(mappings->stream, info->dlpi_addr + segment->p_vaddr);
        put_varint(mappings->stream, segment->p_memsz);
        put_varint(mappings->stream, segment->p_offset);
        put_varint(mappings->stream, segment->p_vaddr);
        put_string(mappings->stream, name, length);
        put_string(mappings->stream, id, id_length);
    }
    return 0;
}

/* dl_iterate_phdr holds the dynamic linker's lock, and a program that loads a library would wait for whoever reads the
   stream. So all that it says is noted first. */
static void put_mappings(struct stream *stream) {
    enum { NOTES_BYTES = 64 << 10, GROWTH = 4 };
    int error = ENOSPC;
    for (size_t room = NOTES_BYTES; error == ENOSPC; room *= GROWTH) {
        char *memory = hz_os_map(room, hz_os_page_bytes(), false);
        if (memory == NULL) {
            stream->error = stream->error != 0 ? stream->error : ENOMEM;
            return;
        }
        struct stream notes = {.fd = STREAM_TO_MEMORY, .room = room, .buffer = memory};
        struct mappings mappings = {.stream = &notes, .is_first = true};
        hz_hooks_forkless_begin();                  /* else a fork's child could open no libraries */
        (void)dl_iterate_phdr(put_file, &mappings); /* returns what put_file does */
        hz_hooks_forkless_end();
        error = notes.error;
        if (error == 0)
            put_bytes(stream, memory, notes.used);
        (void)hz_os_unmap(memory, room); /* only address space is lost */
    }
}

/* ---- the stream -------------------------------------------------------------------------------------- */

static void put_moment(struct stream *stream) {
    struct hz_process process;
    struct hz_profile_figures figures;
    const uint64_t second_ns = 1000000000;
    uint64_t now = hz_os_date_ns();
    hz_process_get(&process);
    hz_profile_figures_get(&figures);
    put_bytes(stream, stream_magic, sizeof(stream_magic));
    put_varint(stream, STREAM_VERSION);
    put_varint(stream, process.id);
    put_varint(stream, now / second_ns);
    put_varint(stream, now % second_ns);
    put_varint(stream, hz_profile_rate());
    put_varint(stream, figures.lost_blocks);
    put_string(stream, process.program, strlen(process.program));
}

static void put_site(struct stream *stream, const struct hz_profile_site *site) {
    struct hz_profile_stack stack = hz_profile_site_stack(site);
    /* relaxed, all: figures. A reader copes with a little more freed than allocated */
    uint64_t passed_blocks = hz_load_rlx(&site->passed_blocks);
    uint64_t passed_bytes = hz_load_rlx(&site->passed_bytes);
    uint64_t freed_blocks = hz_load_rlx(&site->freed_blocks);
    uint64_t freed_bytes = hz_load_rlx(&site->freed_bytes);
    put_varint(stream, RECORD_SITE);
    put_varint(stream, site->weight);
    put_varint(stream, hz_load_rlx(&site->allocated_blocks));
    put_varint(stream, hz_load_rlx(&site->allocated_bytes));
    put_varint(stream, freed_blocks);
    put_varint(stream, freed_bytes);
    put_varint(stream, passed_blocks);
    put_varint(stream, passed_bytes);
    put_varint(stream, stack.depth);
    uint64_t before = 0;
    for (uint32_t i = 0; i < stack.depth; i++) {
        put_difference(stream, (uintptr_t)stack.addresses[i], before);
        before = (uintptr_t)stack.addresses[i];
    }
}

static void put_pair(struct stream *stream, const struct hz_profile_pair *pair) {
    enum { HALF = 1 << (HZ_PROFILE_BLOCK_LOG2 - 1) };
    /* relaxed, all: figures */
    put_varint(stream, RECORD_PAIR);
    put_varint(stream, pair->from);
    put_varint(stream, pair->to);
    put_varint(stream, hz_load_rlx(&pair->samples));
    put_varint(stream, (hz_load_rlx(&pair->blocks) + HALF) >> HZ_PROFILE_BLOCK_LOG2);
    put_varint(stream, hz_load_rlx(&pair->bytes));
}

/* One thread of a pair. Each thread is that of some pair: of the pair that has what it allocated, or of one that it
 * freed. */
static uint32_t thread_named_by(const struct hz_profile_pair *pair) {
    return pair->to == HZ_PROFILE_NOBODY ? pair->from : pair->to;
}

/* The names of the threads that still exist. */
static void put_threads(struct stream *stream, uint32_t pairs) {
    char name[HZ_THREAD_NAME_ROOM];
    for (uint32_t number = 1; number <= pairs; number++) {
        uint32_t thread = thread_named_by(hz_profile_pair_at(number));
        uint32_t first = 1;
        while (thread_named_by(hz_profile_pair_at(first)) != thread)
            first++;
        if (first < number || thread == HZ_PROFILE_OTHERS)
            continue;
        hz_process_thread_name(thread, name);
        if (name[0] == '\0')
            continue;
        put_varint(stream, RECORD_THREAD);
        put_varint(stream, thread);
        put_string(stream, name, strlen(name));
    }
}

int hz_profile_write(int fd) {
    char buffer[STREAM_BYTES];
    struct stream stream = {.fd = fd, .room = sizeof(buffer), .buffer = buffer};
    uint32_t pairs = hz_profile_pair_count();
    uint32_t count = hz_profile_site_count();
    put_moment(&stream);
    put_mappings(&stream);
    for (uint32_t number = 1; number <= pairs; number++)
        put_pair(&stream, hz_profile_pair_at(number));
    put_threads(&stream, pairs);
    for (uint32_t number = 1; number <= count; number++)
        put_site(&stream, hz_profile_site_at(number));
    put_varint(&stream, RECORD_END);
    put_varint(&stream, count);
    stream_flush(&stream);
    return stream.error;
}

/* ---- leaks ------------------------------------------------------------------------------------------- */

enum { LEAKS = 10, LEAK_DEPTH = 20 };

struct leak {
    const struct hz_profile_site *site;
    double bytes; /* estimates */
    double blocks;
};

static struct leak leak_of(const struct hz_profile_site *site) {
    double chance = hz_random_chance(site->weight, hz_profile_rate());
    /* relaxed, all: figures, signed because they may not belong together */
    int64_t blocks = (int64_t)(hz_load_rlx(&site->allocated_blocks) - hz_load_rlx(&site->freed_blocks));
    int64_t bytes = (int64_t)(hz_load_rlx(&site->allocated_bytes) - hz_load_rlx(&site->freed_bytes));
    return (struct leak){.site = site, .bytes = (double)bytes / chance, .blocks = (double)blocks / chance};
}

/* Keeps the largest ones, in falling order. */
static void leak_insert(struct leak *largest, struct leak leak) {
    for (unsigned i = 0; i < LEAKS; i++)
        if (leak.bytes > largest[i].bytes) {
            struct leak smaller = largest[i];
            largest[i] = leak;
            leak = smaller;
        }
}

__attribute__((format(printf, 2, 3))) static void leaks_say(int fd, const char *format, ...) {
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (length > 0)
        (void)hz_os_write(fd, text, hz_min((size_t)length, sizeof(text) - 1)); /* as the header says */
}

void hz_profile_write_leaks(int fd) {
    struct leak largest[LEAKS] = {{.site = NULL}};
    double bytes = 0;
    double blocks = 0;
    uint32_t sites = 0;
    uint32_t count = hz_profile_site_count();
    for (uint32_t number = 1; number <= count; number++) {
        struct leak leak = leak_of(hz_profile_site_at(number));
        sites += leak.blocks > 0;
        bytes += leak.bytes;
        blocks += leak.blocks;
        leak_insert(largest, leak);
    }
    leaks_say(fd, "hakozuna: leaks: about %.0f bytes in %.0f blocks are live, of %u sites (sampled every %llu bytes)\n",
              bytes, blocks, sites, (unsigned long long)hz_profile_rate());
    for (unsigned i = 0; i < LEAKS && largest[i].bytes > 0; i++) {
        struct hz_profile_stack stack = hz_profile_site_stack(largest[i].site);
        leaks_say(fd, "  about %.0f bytes in %.0f blocks, allocated by:\n", largest[i].bytes, largest[i].blocks);
        hz_callstack_write_lines(fd, stack.addresses, (uint32_t)hz_min(stack.depth, LEAK_DEPTH));
    }
}
