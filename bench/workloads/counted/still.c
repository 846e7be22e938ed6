/*
 * still.c - preloaded together with an allocator whose instructions are counted. Time passes only when the program says
 * so, a thread runs on the CPU that the program names, and the kernel's random bytes are always the same. So an
 * allocator that looks at clocks does the same work in each run, however slow the simulation is. ledger.c is the
 * program.
 *
 * Allocators ask the C library for the time, or find the kernel's function for it in the vDSO. Under valgrind there is
 * no vDSO. So getauxval, through which a program finds it, leads to an image here that has the two functions.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

/* The program sets these. */
EXPORT uint64_t still_now_ns = UINT64_C(1000000000);
static _Thread_local unsigned still_cpu __attribute__((tls_model("initial-exec")));

EXPORT unsigned *still_cpu_of(void) {
    return &still_cpu; /* of the calling thread */
}

static int still_clock(clockid_t clock, struct timespec *now) {
    enum { NS_PER_S = 1000000000 };
    (void)clock;
    uint64_t ns = __atomic_load_n(&still_now_ns, __ATOMIC_RELAXED);
    now->tv_sec = (time_t)(ns / NS_PER_S);
    now->tv_nsec = (long)(ns % NS_PER_S);
    return 0;
}

static long still_getcpu(unsigned *cpu, unsigned *node, void *unused) {
    (void)unused;
    if (cpu != NULL)
        *cpu = still_cpu;
    if (node != NULL)
        *node = 0;
    return 0;
}

/* ---- the image ------------------------------------------------------------------------------------- */

enum { SYMBOLS = 3, DYNAMICS = 6 };

#define NAMES "\0__vdso_clock_gettime\0__vdso_getcpu"

static struct image {
    Elf64_Ehdr header;
    Elf64_Phdr parts[2];
    Elf64_Dyn dynamic[DYNAMICS];
    Elf64_Sym symbols[SYMBOLS];
    uint32_t hash[2 + 1 + SYMBOLS];
    char names[sizeof(NAMES)];
} image;

static Elf64_Sym symbol_of(const char *name, uintptr_t function) {
    size_t at = 1;
    while (strcmp(&image.names[at], name) != 0)
        at += strlen(&image.names[at]) + 1;
    return (Elf64_Sym){
        .st_name = (Elf64_Word)at,
        .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
        .st_shndx = 1,
        .st_value = function - (uintptr_t)&image, /* what a reader adds to the image's address */
    };
}

static void image_make(void) {
    image.header = (Elf64_Ehdr){
        .e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
        .e_type = ET_DYN,
        .e_machine = EM_X86_64,
        .e_version = EV_CURRENT,
        .e_phoff = offsetof(struct image, parts),
        .e_ehsize = sizeof(Elf64_Ehdr),
        .e_phentsize = sizeof(Elf64_Phdr),
        .e_phnum = 2,
    };
    image.parts[0] = (Elf64_Phdr){.p_type = PT_LOAD, .p_filesz = sizeof(image), .p_memsz = sizeof(image)};
    image.parts[1] = (Elf64_Phdr){
        .p_type = PT_DYNAMIC,
        .p_offset = offsetof(struct image, dynamic),
        .p_vaddr = offsetof(struct image, dynamic),
        .p_filesz = sizeof(image.dynamic),
        .p_memsz = sizeof(image.dynamic),
    };
    image.dynamic[0] = (Elf64_Dyn){.d_tag = DT_HASH, .d_un.d_ptr = offsetof(struct image, hash)};
    image.dynamic[1] = (Elf64_Dyn){.d_tag = DT_SYMTAB, .d_un.d_ptr = offsetof(struct image, symbols)};
    image.dynamic[2] = (Elf64_Dyn){.d_tag = DT_STRTAB, .d_un.d_ptr = offsetof(struct image, names)};
    image.dynamic[3] = (Elf64_Dyn){.d_tag = DT_STRSZ, .d_un.d_val = sizeof(image.names)};
    image.dynamic[4] = (Elf64_Dyn){.d_tag = DT_NULL};
    memcpy(image.names, NAMES, sizeof(NAMES));
    image.symbols[1] = symbol_of("__vdso_clock_gettime", (uintptr_t)still_clock);
    image.symbols[2] = symbol_of("__vdso_getcpu", (uintptr_t)still_getcpu);
    image.hash[0] = 1;       /* bucket */
    image.hash[1] = SYMBOLS; /* chains */
    image.hash[2] = 1;       /* the bucket's first symbol, */
    image.hash[3 + 1] = 2;   /* and the one after it */
}

/* ---- what the C library would answer ------------------------------------------------------------------- */

/* The program's stack at its start: argument count, arguments, NULL, environment, NULL, auxiliary vector. */
extern void *__libc_stack_end;

static const ElfW(auxv_t) * auxiliary_vector(void) {
    const uintptr_t *word = __libc_stack_end;
    word += 1 + *word + 1;
    while (*word != 0)
        word++;
    return (const void *)(word + 1);
}

EXPORT unsigned long getauxval(unsigned long type) {
    static const unsigned char bytes[16] = "still and fixed";
    if (type == AT_RANDOM)
        return (unsigned long)bytes;
    if (type == AT_SYSINFO_EHDR) {
        if (image.header.e_phnum == 0)
            image_make();
        return (unsigned long)&image;
    }
    for (const ElfW(auxv_t) *entry = auxiliary_vector(); entry->a_type != AT_NULL; entry++)
        if (entry->a_type == type)
            return entry->a_un.a_val;
    return 0;
}

EXPORT int clock_gettime(clockid_t clock, struct timespec *now) {
    return still_clock(clock, now);
}

EXPORT int sched_getcpu(void) {
    return (int)still_cpu;
}
