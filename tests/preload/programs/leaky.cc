/*
 * leaky.cc - loses blocks, and keeps others in one place each. For tests/preload/test_leaks.py.
 *
 *   leaky check [CHURNING]   looks for leaks before and after each of these, and prints what is new: a line with the
 * name and the numbers of direct and indirect leaks. CHURNING threads allocate and free meanwhile leaky lose loses
 * blocks of three kinds and ends, with another thread still there leaky lose-by-thread     a thread loses a block and
 * ends leaky tidy               loses nothing leaky wait               loses a block, and waits for the end of stdin
 *   leaky traced             looks while another process traces it
 *   leaky status NUMBER      ends with this status, and loses nothing
 *   leaky exit-in-thread NUMBER  loses a block; a thread calls exit while so many wait
 *   leaky fork               the child loses a block, the parent none
 */
#include "hakozuna/hakozuna.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <thread>
#include <ucontext.h>
#include <unistd.h>
#include <vector>

extern "C" {
#pragma weak hz_leaks_check
#pragma weak hz_zone_create
#pragma weak hz_zone_malloc
}

namespace {

constexpr size_t SMALL = 72, RUN = 300'000, DIRECT = 9'000'000;

/* No address stays behind in the stack that later calls use. */
__attribute__((noinline)) void scrub() {
    char room[32 << 10];
    memset(room, 0, sizeof(room));
    asm volatile("" : : "r"(room) : "memory");
}

template <typename Pointer> __attribute__((noinline)) void lose(Pointer pointer) {
    memset(static_cast<void *>(pointer), 0x5a, 16);
    asm volatile("" : : "r"(pointer) : "memory");
}

/* The compiler must take it that somebody reads the variable. */
template <typename Type> void used(Type *variable) {
    asm volatile("" : : "r"(variable) : "memory");
}

struct hz_leaks look(int fd = -1) {
    struct hz_leaks found = {};
    scrub();
    if (hz_leaks_check(fd, &found, sizeof(found)) != 0) {
        perror("hz_leaks_check");
        exit(2);
    }
    return found;
}

/* ---- lost ------------------------------------------------------------------------------------------- */

void lost_small() {
    lose(malloc(SMALL));
}
void lost_many() {
    for (int i = 0; i < 1000; i++)
        lose(malloc(16 + i % 600));
}
void lost_calloc() {
    lose(calloc(3, SMALL));
}
void lost_array() {
    lose(new int[100]);
}
void lost_aligned() {
    void *block = nullptr;
    if (posix_memalign(&block, 256, SMALL) == 0)
        lose(block);
}
void lost_mid() {
    lose(malloc(40'000));
}
void lost_run() {
    lose(malloc(RUN));
}
void lost_direct() {
    lose(malloc(DIRECT));
}
struct hz_zone *zone;
void lost_of_zone() {
    if (zone == nullptr)
        zone = hz_zone_create();
    lose(hz_zone_malloc(zone, SMALL));
    lose(hz_zone_malloc(zone, RUN));
}
void lost_hidden() {
    static uintptr_t kept;
    void *block = malloc(SMALL);
    lose(block);
    kept = ~reinterpret_cast<uintptr_t>(block); /* no address */
    used(&kept);
}
void lost_chain() { /* 1 and 3 */
    void **block = nullptr;
    for (int i = 0; i < 4; i++) {
        void **next = static_cast<void **>(malloc(SMALL));
        next[0] = next[1] = nullptr;
        next[3] = block != nullptr ? reinterpret_cast<char *>(block) + 20 : nullptr; /* the middle of the block */
        block = next;
    }
    used(block);
}
void lost_ring() { /* 1 and 1 */
    void **first = static_cast<void **>(malloc(SMALL));
    void **second = static_cast<void **>(malloc(SMALL));
    *first = second;
    *second = first;
    used(first);
}
void lost_self() {
    void **block = static_cast<void **>(malloc(SMALL));
    *block = block;
    used(block);
}
void lost_with_tail() { /* 1 and 1: the large one has the only address of the small one, at its end */
    void **block = static_cast<void **>(malloc(DIRECT));
    block[DIRECT / sizeof(void *) - 1] = malloc(SMALL);
    used(block);
}
void lost_by_thread() {
    std::thread([] {
        void *volatile place = malloc(SMALL);
        lose(static_cast<void *>(place));
    }).join();
}
thread_local void *of_thread;
void lost_with_thread() { /* it was in a thread-local variable */
    std::thread([] {
        of_thread = malloc(SMALL);
        used(&of_thread);
    }).join();
}
void freed_by_other() { /* none */
    std::vector<void *> blocks;
    for (int i = 0; i < 500; i++)
        blocks.push_back(malloc(SMALL + i));
    std::thread([&] {
        for (void *block : blocks)
            free(block);
    }).join();
}

/* ---- kept ------------------------------------------------------------------------------------------- */

void *in_global;
void kept_global() {
    in_global = malloc(SMALL);
    used(&in_global);
}
void kept_interior() {
    static char *inside;
    inside = static_cast<char *>(malloc(RUN)) + RUN / 2;
    used(&inside);
    static char *at_end;
    at_end = static_cast<char *>(malloc(DIRECT)) + DIRECT - 1;
    used(&at_end);
}
void kept_in_block() {
    static void **chain;
    for (int i = 0; i < 5; i++) {
        void **next = static_cast<void **>(malloc(SMALL));
        next[5] = chain;
        chain = next;
    }
    used(&chain);
}
void kept_in_large() {
    static void **block = static_cast<void **>(malloc(DIRECT));
    block[DIRECT / sizeof(void *) - 1] = malloc(SMALL);
    used(&block);
}
void kept_in_zone() {
    static void **block;
    if (zone == nullptr)
        zone = hz_zone_create();
    block = static_cast<void **>(hz_zone_malloc(zone, SMALL));
    block[2] = malloc(SMALL);
    used(&block);
}
void kept_in_own_local() {
    of_thread = malloc(SMALL);
    used(&of_thread);
}
thread_local std::vector<void *> objects;
void kept_in_local_object() {
    objects.push_back(malloc(SMALL));
}
void kept_in_mapping() {
    void *map = mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    static_cast<void **>(map)[70'000] = malloc(SMALL);
    used(static_cast<char *>(map));
}
void kept_in_shared_mapping() {
    void *map = mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    static_cast<void **>(map)[70'000] = malloc(SMALL);
    used(static_cast<char *>(map));
}
void kept_in_read_only_mapping() {
    void *map = mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    static_cast<void **>(map)[7] = malloc(SMALL);
    used(static_cast<char *>(map));
    mprotect(map, 1 << 20, PROT_READ);
}
void kept_by_key() {
    pthread_key_t key;
    for (int i = 0; i < 40; i++) /* beyond those that a thread has room for itself */
        pthread_key_create(&key, nullptr);
    pthread_setspecific(key, malloc(SMALL));
}

/* Threads that keep a block each in one place, until the process ends. */
std::atomic<int> keeping;
std::atomic<pid_t> waiting;
std::atomic<bool> never;

void begin(void (*keep)()) {
    int before = keeping;
    std::thread(keep).detach();
    while (keeping == before)
        std::this_thread::yield();
}
void keep_waiting() {
    int ends[2];
    char byte;
    if (pipe(ends) != 0)
        abort();
    waiting = gettid();
    keeping++;
    while (read(ends[0], &byte, 1) != 1) {
    }
}
void kept_in_other_stack() {
    begin([] {
        void *volatile block = malloc(SMALL);
        keep_waiting();
        free(block);
    });
}
void kept_in_other_local() {
    begin([] {
        of_thread = malloc(SMALL);
        used(&of_thread);
        keep_waiting();
    });
}
void kept_in_other_local_object() {
    begin([] {
        objects.push_back(malloc(SMALL));
        keep_waiting();
    });
}
void kept_in_register() {
    begin([] {
        uintptr_t hidden = ~reinterpret_cast<uintptr_t>(malloc(SMALL));
        scrub();
        keeping++;
        uintptr_t shown = ~hidden; /* the compiler keeps it in a register for the loop, or on the stack */
        while (!never)
            asm volatile("" : "+r"(shown));
        free(reinterpret_cast<void *>(shown));
    });
}
void kept_on_signal_stack() { /* a thread that runs on a stack in the program's data */
    static char stack[64 << 10] __attribute__((aligned(16)));
    static ucontext_t back;
    static ucontext_t there;
    static void **below = reinterpret_cast<void **>(stack);
    getcontext(&there);
    there.uc_stack.ss_sp = stack;
    there.uc_stack.ss_size = sizeof(stack);
    there.uc_link = &back;
    makecontext(
        &there,
        [] {
            void *volatile block = malloc(SMALL);
            swapcontext(&there, &back);
            free(block);
        },
        0);
    swapcontext(&back, &there);
    *below = malloc(SMALL);
    used(&below);
}

void kept_below_given_stack() { /* the program gives a thread a part of its data as a stack */
    static char data[1 << 20] __attribute__((aligned(4096)));
    pthread_attr_t attributes;
    pthread_t thread;
    int before = keeping;
    *reinterpret_cast<void **>(data) = malloc(SMALL);
    used(data);
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, data + sizeof(data) / 2, sizeof(data) / 2);
    if (pthread_create(
            &thread, &attributes,
            [](void *) -> void * {
                keep_waiting();
                return nullptr;
            },
            nullptr) != 0)
        abort();
    while (keeping == before)
        std::this_thread::yield();
}

struct Case {
    const char *name;
    void (*run)();
};

const Case cases[] = {
#define CASE(name)                                                                                                     \
    { #name, name }
    CASE(lost_small),
    CASE(lost_many),
    CASE(lost_calloc),
    CASE(lost_array),
    CASE(lost_aligned),
    CASE(lost_mid),
    CASE(lost_run),
    CASE(lost_direct),
    CASE(lost_of_zone),
    CASE(lost_hidden),
    CASE(lost_chain),
    CASE(lost_ring),
    CASE(lost_self),
    CASE(lost_with_tail),
    CASE(freed_by_other),
    CASE(kept_global),
    CASE(kept_interior),
    CASE(kept_in_block),
    CASE(kept_in_large),
    CASE(kept_in_zone),
    CASE(kept_in_own_local),
    CASE(kept_in_local_object),
    CASE(kept_in_mapping),
    CASE(kept_in_shared_mapping),
    CASE(kept_in_read_only_mapping),
    CASE(kept_by_key),
    CASE(kept_in_other_stack),
    CASE(kept_in_other_local),
    CASE(kept_in_other_local_object),
    CASE(kept_in_register),
    CASE(kept_on_signal_stack),
    CASE(kept_below_given_stack),
    CASE(lost_by_thread),
    CASE(lost_with_thread),
};

[[noreturn]] void churn() {
    std::vector<void *> blocks(500);
    keeping++;
    for (unsigned i = 0;; i++) {
        void *&block = blocks[i * 7919 % blocks.size()];
        free(block);
        block = malloc(16 + i % 3000);
    }
}

/* So far down in the stack that scrub overwrites what it leaves there. */
__attribute__((noinline)) void run_below(void (*run)()) {
    char room[8 << 10];
    used(room);
    run();
    used(room);
}

int check(int churning) {
    for (int i = 0; i < churning; i++)
        begin(churn);
    struct hz_leaks before = look();
    for (const Case &each : cases) {
        scrub();
        run_below(each.run);
        struct hz_leaks after = look();
        printf("%s %zd %zd%s\n", each.name, after.direct_blocks - before.direct_blocks,
               after.indirect_blocks - before.indirect_blocks, after.is_exact != 0 ? "" : " (not exact)");
        before = after;
    }
    fflush(stdout);
    _exit(0);
}

int traced() {
    int ends[2];
    char byte = 0;
    struct hz_leaks found;
    if (pipe(ends) != 0)
        return 2;
    begin([] { keep_waiting(); });
    pid_t child = fork();
    if (child == 0) {
        bool is_traced = ptrace(PTRACE_SEIZE, waiting.load(), nullptr, nullptr) == 0;
        byte = is_traced ? 'y' : 'n';
        bool is_written = write(ends[1], &byte, 1) == 1;
        while (is_written)
            pause();
        _exit(1);
    }
    if (read(ends[0], &byte, 1) != 1 || byte != 'y')
        return 3;
    int result = hz_leaks_check(2, &found, sizeof(found));
    int error = errno;
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    printf("%d %s\n", result, strerror(error));
    return 0;
}

} // namespace

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "check") == 0)
        return check(argc > 2 ? atoi(argv[2]) : 0);
    if (strcmp(what, "traced") == 0)
        return traced();
    if (strcmp(what, "exit-in-thread") == 0 && argc > 2) {
        for (int i = atoi(argv[2]); i > 0; i--)
            begin([] {
                void *volatile block = malloc(SMALL);
                keep_waiting();
                free(block);
            });
        run_below(lost_small);
        std::thread([] { exit(0); }).join();
    }
    if (strcmp(what, "status") == 0 && argc > 2)
        return atoi(argv[2]);
    if (strcmp(what, "lose") == 0) {
        begin([] { keep_waiting(); });
        run_below(lost_small);
        run_below(lost_ring);
        run_below(lost_chain);
    } else if (strcmp(what, "lose-by-thread") == 0) {
        run_below(lost_by_thread);
    } else if (strcmp(what, "wait") == 0) {
        run_below(lost_small);
        scrub();
        puts("ready");
        fflush(stdout);
        while (getchar() != EOF) {
        }
    } else if (strcmp(what, "fork") == 0) {
        pid_t child = fork();
        if (child == 0) {
            run_below(lost_small);
            scrub();
            exit(0);
        }
        int status = 0;
        waitpid(child, &status, 0);
        printf("child %d\n", WEXITSTATUS(status));
    } else if (strcmp(what, "tidy") != 0) {
        fputs("leaky: allowed are check, lose, lose-by-thread, tidy, wait, traced, status NUMBER, exit-in-thread "
              "NUMBER, fork\n",
              stderr);
        return 2;
    }
    scrub();
    return 0;
}
