/*
 * callstack.c - see callstack.h.
 *
 * hz_os_backtrace unwinds with the tables for exceptions, which all Debian packages have; few packages have frame
 * pointers.
 */
#define _GNU_SOURCE
#include "base/profile/callstack.h"

#include "base/os/os.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>

static struct {
    uintptr_t begin;
    size_t bytes; /* 0: not found */
} unwinder;       /* const after publish */

static int unwinder_find(struct dl_phdr_info *info, size_t size, void *unused) {
    (void)size;
    (void)unused;
    if (strstr(info->dlpi_name, "/libgcc_s.so") == NULL)
        return 0;
    for (unsigned i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && (info->dlpi_phdr[i].p_flags & PF_X) != 0) {
            unwinder.begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            unwinder.bytes = info->dlpi_phdr[i].p_memsz;
        }
    return 1;
}

void hz_callstack_prime(void) {
    void *address;
    (void)hz_os_backtrace(&address, 1);
    (void)dl_iterate_phdr(unwinder_find, NULL); /* returns what unwinder_find does */
}

bool hz_callstack_is_unwinder(const void *address) {
    return (uintptr_t)address - unwinder.begin < unwinder.bytes;
}

HZ_NOINLINE void hz_callstack_take(struct hz_callstack *stack) {
    stack->depth = hz_os_backtrace(stack->addresses, HZ_CALLSTACK_DEPTH);
    stack->thread_id = hz_os_thread_id();
}

/* Where the library's file is mapped; NULL if the library is linked into the program's own file. */
static const void *library_base(void) {
    static const char here;
    Dl_info of_library;
    Dl_info of_program;
    if (dladdr(&here, &of_library) == 0)
        return NULL;
    /* AT_PHDR is the address of the program's headers, which lie in the first page of its file */
    bool found = dladdr((const void *)getauxval(AT_PHDR), &of_program) != 0; /* NOLINT */
    return found && of_program.dli_fbase == of_library.dli_fbase ? NULL : of_library.dli_fbase;
}

/* The number that addr2line wants: an offset in the file, or the address itself if the file has a fixed address. */
static size_t offset_in(const Dl_info *info, const void *address) {
    const Elf64_Ehdr *header = info->dli_fbase;
    return header->e_type == ET_EXEC ? (uintptr_t)address : (uintptr_t)address - (uintptr_t)info->dli_fbase;
}

static void write_text(int fd, const char *text, size_t room, int length) {
    if (length > 0)
        (void)hz_os_write(fd, text, hz_min((size_t)length, room - 1)); /* a closed stderr cannot be reported */
}

/* `back`: 1 for a return address, so that the address lies in the call and not behind it. */
static void address_write(int fd, const char *address, size_t back) {
    char text[512];
    Dl_info info;
    const char *call = address - back;
    int length;
    if (dladdr(call, &info) == 0 || info.dli_fname == NULL)
        length = snprintf(text, sizeof(text), "    0x%zx\n", (size_t)(uintptr_t)call);
    else if (info.dli_sname == NULL)
        length = snprintf(text, sizeof(text), "    %.300s+0x%zx\n", info.dli_fname, offset_in(&info, call));
    else
        length = snprintf(text, sizeof(text), "    %.300s+0x%zx (%.120s)\n", info.dli_fname, offset_in(&info, call),
                          info.dli_sname);
    write_text(fd, text, sizeof(text), length);
}

void hz_callstack_write_lines(int fd, const void *const *addresses, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        address_write(fd, addresses[i], 1);
}

static bool is_in(const void *base, const void *address) {
    Dl_info info;
    return base != NULL && dladdr(address, &info) != 0 && info.dli_fbase == base;
}

void hz_callstack_write(int fd, const char *title, const struct hz_callstack *stack) {
    if (stack->thread_id == 0)
        return;
    char text[96];
    write_text(fd, text, sizeof(text), snprintf(text, sizeof(text), "  %.60s %u:\n", title, stack->thread_id));
    const void *library = library_base();
    uint32_t first = 0;
    while (first < stack->depth && is_in(library, stack->addresses[first]))
        first++;
    hz_callstack_write_lines(fd, (const void *const *)stack->addresses + first, stack->depth - first);
}
