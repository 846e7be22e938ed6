/*
 * leaks.h - which live blocks nothing reaches: no word of the program's memory, stacks and registers, and of no block
 * that is reached, is an address in them.
 *
 * For a moment at which no other thread of the process runs: they are stopped (base/os/os_stop.h), or there is none.
 * Takes no lock and allocates nothing from the heap.
 *
 * Memory of the program is all that it may have written and can read: data of the program and its libraries, stacks
 * from the stack pointer on, thread-local variables, mappings of its own. Of the stack of a thread that has ended,
 * which the C library keeps, nothing counts (hz_leaks_note_thread). The library's own memory does not count.
 */
#ifndef HZ_HEAP_REPORT_LEAKS_H
#define HZ_HEAP_REPORT_LEAKS_H

#include "base/os/os_stop.h"

struct hz_leak {
    uintptr_t start;
    size_t bytes;   /* of the block */
    bool is_direct; /* no other leaked block reaches it; of blocks that only reach each other, the first is such */
};

enum hz_leaks_result {
    HZ_LEAKS_FOUND,  /* what there is; there may be none */
    HZ_LEAKS_NO_MAP, /* /proc cannot be read */
    HZ_LEAKS_NO_MEMORY,
};

struct hz_leaks_search {
    /* the caller sets these */
    const struct hz_stopped_world *others; /* all threads but the calling one */
    uint32_t process;                      /* its number */
    uintptr_t own_stack;                   /* what the calling thread has of its stack begins here */
    uint32_t own_word_count;               /* of its registers */
    uintptr_t own_words[HZ_KEPT_REGISTERS];
    uintptr_t own_local;                                                                 /* its thread pointer */
    void (*forget)(void *census, void (*forget_block)(void *census, const void *block)); /* what front keeps, or NULL */

    /* and these are found */
    bool is_exact; /* no thread was inside malloc or free */
    size_t live_blocks;
    size_t live_bytes;
    struct hz_leak *leaks; /* by address; hz_leaks_found_end gives the memory back */
    size_t count;
    size_t leaks_bytes;
};

/* Whether the thread is in the middle of no change to the heap. */
bool hz_leaks_may_stay(const struct hz_leaks_search *search, const struct hz_stopped *thread);

enum hz_leaks_result hz_leaks_find(struct hz_leaks_search *search);
void hz_leaks_found_end(struct hz_leaks_search *search);

/* From now on threads say where their stacks are when they begin (hz_leaks_note_thread). */
void hz_leaks_note_threads(void);

/* The calling thread begins. Does nothing unless hz_leaks_note_threads was called. */
void hz_leaks_note_thread(void);

#endif
