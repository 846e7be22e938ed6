/*
 * sandbox.c - a program that restricts its system calls and goes on allocating. Usage: sandbox WHEN HOW WORK LIST
 *
 *   WHEN   exec      the filter is installed by this program, which then executes itself again
 *          early     at once
 *          late      after some work
 *          threads   after three threads have worked, which go on afterwards
 *          first     by the first thread that the program starts, at once
 *          beside    right after the program has started its first thread, which only waits
 *   HOW    prctl, raw          how the filter is installed: raw by its own system call, unseen by the heap
 *          kill, EPERM, ENOSYS, EINVAL, EACCES
 *                             what the filter does to a call. As in prctl:kill
 *   WORK   one, threads        after the filter: in the first thread, or in further threads as well
 *          dense               like threads; then the first thread's heap becomes so large that it gets huge pages
 *          stay                in the first thread; those that have worked before go on, and do not end
 *          exit                in the first thread, and the program ends by exit instead of _exit
 *          refused             in the first thread, where malloc may fail with ENOMEM
 *   LIST   names of system calls that the filter hits, with commas; with a leading = all calls but those
 *          @plain              all but futex, write, exit_group, munmap, and of mmap, mprotect, mremap and madvise all
 *                             but those with the arguments that the C library's malloc uses
 *          @fixed              the same with MAP_FIXED allowed
 *
 * Exit codes: 0 all blocks were intact; 3 a bad command line. The heap's calls get one that reports what is wrong.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CALL(name)                                                                                                     \
    { #name, SYS_##name }
static const struct {
    const char *name;
    int number;
} calls[] = {CALL(brk),
             CALL(clock_gettime),
             CALL(clone),
             CALL(clone3),
             CALL(close),
             CALL(exit),
             CALL(exit_group),
             CALL(futex),
             CALL(getcpu),
             CALL(getpid),
             CALL(getrandom),
             CALL(getrusage),
             CALL(gettid),
             CALL(madvise),
             CALL(membarrier),
             CALL(mmap),
             CALL(mprotect),
             CALL(mremap),
             CALL(munmap),
             CALL(openat),
             CALL(prctl),
             CALL(prlimit64),
             CALL(read),
             CALL(rseq),
             CALL(rt_sigaction),
             CALL(rt_sigprocmask),
             CALL(rt_sigreturn),
             CALL(sched_get_priority_max),
             CALL(sched_get_priority_min),
             CALL(sched_getaffinity),
             CALL(sched_setscheduler),
             CALL(sched_yield),
             CALL(set_robust_list),
             CALL(sysinfo),
             CALL(write)};

enum { CALLS = sizeof calls / sizeof calls[0], ROUNDS = 20, BLOCKS = 3000, THREADS = 3, DENSE_BLOCKS = 64 << 10 };

static void fail(const char *what) {
    (void)!write(STDERR_FILENO, what, strlen(what));
    (void)!write(STDERR_FILENO, "\n", 1);
    _exit(3);
}

static int number_of(const char *name) {
    for (int i = 0; i < CALLS; i++)
        if (strcmp(calls[i].name, name) == 0)
            return calls[i].number;
    fail(name);
    return -1;
}

static uint32_t verdict_of(const char *action) {
    static const struct {
        const char *name;
        uint32_t verdict;
    } verdicts[] = {{"kill", SECCOMP_RET_KILL_PROCESS},
                    {"EPERM", SECCOMP_RET_ERRNO | EPERM},
                    {"ENOSYS", SECCOMP_RET_ERRNO | ENOSYS},
                    {"EINVAL", SECCOMP_RET_ERRNO | EINVAL},
                    {"EACCES", SECCOMP_RET_ERRNO | EACCES}};
    for (size_t i = 0; i < sizeof verdicts / sizeof verdicts[0]; i++)
        if (strcmp(verdicts[i].name, action) == 0)
            return verdicts[i].verdict;
    fail(action);
    return 0;
}

struct filter {
    struct sock_filter code[2 * CALLS + 40];
    unsigned short length;
};

static void add(struct filter *filter, struct sock_filter step) {
    filter->code[filter->length++] = step;
}

static void add_load(struct filter *filter, size_t offset) {
    add(filter, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset));
}

static void add_return(struct filter *filter, uint32_t verdict) {
    add(filter, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, verdict));
}

static void add_call(struct filter *filter, uint32_t number, uint32_t verdict) {
    add(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1));
    add_return(filter, verdict);
}

/* Allows the call if its argument, without the bits of `mask`, is `value`. The processor is a little-endian one. */
static void add_argument(struct filter *filter, uint32_t number, unsigned argument, uint32_t mask, uint32_t value) {
    add(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 5));
    add_load(filter, offsetof(struct seccomp_data, args) + argument * sizeof(uint64_t));
    add(filter, (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, ~mask));
    add(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1));
    add_return(filter, SECCOMP_RET_ALLOW);
    add_load(filter, offsetof(struct seccomp_data, nr));
}

static void add_plain(struct filter *filter, bool with_fixed) {
    static const uint32_t free_calls[] = {SYS_munmap, SYS_futex, SYS_write, SYS_exit_group};
    for (size_t i = 0; i < sizeof free_calls / sizeof free_calls[0]; i++)
        add_call(filter, free_calls[i], SECCOMP_RET_ALLOW);
    add_argument(filter, SYS_mmap, 3, with_fixed ? MAP_FIXED : 0, MAP_PRIVATE | MAP_ANONYMOUS);
    add_argument(filter, SYS_mprotect, 2, PROT_READ | PROT_WRITE, PROT_NONE);
    add_argument(filter, SYS_mremap, 3, 0, MREMAP_MAYMOVE);
    add_argument(filter, SYS_madvise, 2, 0, MADV_DONTNEED);
}

static void install(const char *how, char *list) {
    struct filter filter = {.length = 0};
    const char *action = strchr(how, ':');
    if (action == NULL)
        fail(how);
    uint32_t hit = verdict_of(action + 1);
    bool others = list[0] == '=' || list[0] == '@';
    add_load(&filter, offsetof(struct seccomp_data, nr));
    if (list[0] == '@')
        add_plain(&filter, strcmp(list, "@fixed") == 0);
    else
        for (char *name = strtok(list + others, ","); name != NULL; name = strtok(NULL, ","))
            add_call(&filter, (uint32_t)number_of(name), others ? SECCOMP_RET_ALLOW : hit);
    add_return(&filter, others ? hit : SECCOMP_RET_ALLOW);
    const struct sock_fprog program = {.len = filter.length, .filter = filter.code};
    if (strncmp(how, "raw:", 4) == 0) {
        if (syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
            syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0)
            fail("no filter");
    } else if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
               syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0) {
        fail("no filter");
    }
}

/* ---- work ------------------------------------------------------------------------------------------ */

static bool is_refused; /* NULL with ENOMEM is right */

static void *get(void *block, size_t size) {
    if (block == NULL && !(is_refused && errno == ENOMEM) && size > 0)
        fail("no memory");
    return block;
}

static void put(unsigned char *block, size_t size, size_t mark) {
    if (block != NULL && (block[0] != (unsigned char)mark || block[size - 1] != (unsigned char)mark))
        fail("a block has lost its contents");
    free(block);
}

static unsigned char *make(size_t size, size_t mark) {
    unsigned char *block = get(malloc(size), size);
    if (block != NULL)
        block[0] = block[size - 1] = (unsigned char)mark;
    return block;
}

static void large(void) {
    static const size_t sizes[] = {70000, 300000, 3000000, 9000000, 100000000, 5000000, 200000, 100};
    unsigned char *block = make(60000, 5);
    size_t before = 60000;
    for (size_t i = 0; block != NULL && i < sizeof sizes / sizeof sizes[0]; i++) {
        unsigned char *moved = get(realloc(block, sizes[i]), sizes[i]);
        if (moved == NULL)
            continue;
        block = moved;
        if (block[0] != 5 || (sizes[i] > before && block[before - 1] != 5))
            fail("realloc has lost contents");
        block[sizes[i] - 1] = 5;
        before = sizes[i];
    }
    put(block, before, 5);
    unsigned char *zeroed = get(calloc(1, 40000000), 1);
    if (zeroed != NULL && (zeroed[0] != 0 || zeroed[39999999] != 0))
        fail("calloc's block is not zero");
    free(zeroed);
    free(get(memalign(1 << 20, 100), 100));
}

static void *work(void *unused) {
    static __thread unsigned char *blocks[BLOCKS];
    for (size_t round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < BLOCKS; i++)
            blocks[i] = make(1 + i * (round + 1) % 20000, i);
        for (size_t i = 0; i < BLOCKS; i++)
            put(blocks[i], 1 + i * (round + 1) % 20000, i);
        if (round % 8 == 0)
            large();
    }
    (void)malloc_trim(0);
    return unused;
}

static void grow_dense(void) {
    static unsigned char *blocks[DENSE_BLOCKS];
    for (size_t i = 0; i < DENSE_BLOCKS; i++)
        blocks[i] = make(1024, i);
    for (size_t i = 0; i < DENSE_BLOCKS; i++)
        put(blocks[i], 1024, i);
}

static pthread_barrier_t barrier;
static bool threads_stay;

static void *work_before_and_after(void *unused) {
    (void)work(NULL);
    pthread_barrier_wait(&barrier); /* all have worked */
    pthread_barrier_wait(&barrier); /* the filter is there */
    (void)work(NULL);
    if (threads_stay) {
        pthread_barrier_wait(&barrier); /* all have worked again */
        pthread_barrier_wait(&barrier); /* never: the process ends */
    }
    return unused;
}

static void start(pthread_t *threads, void *(*body)(void *)) {
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, body, NULL) != 0)
            fail("no thread");
}

static void join(const pthread_t *threads) {
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void *install_at_once(void *arguments) {
    char **argv = arguments;
    install(argv[2], argv[4]);
    return NULL;
}

static void *wait_for_the_end(void *unused) {
    pthread_barrier_wait(&barrier);
    return unused;
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "filtered") != 0)
        fail("usage: sandbox WHEN HOW WORK LIST");
    pthread_t threads[THREADS];
    bool with_threads = argc == 5 && strcmp(argv[1], "threads") == 0;
    if (argc == 5) {
        if (with_threads) {
            pthread_barrier_init(&barrier, NULL, THREADS + 1);
            start(threads, work_before_and_after);
            pthread_barrier_wait(&barrier);
        } else if (strcmp(argv[1], "late") == 0) {
            (void)work(NULL);
        }
        if (strcmp(argv[1], "first") == 0) {
            pthread_t first;
            if (pthread_create(&first, NULL, install_at_once, argv) != 0)
                fail("no thread");
            pthread_join(first, NULL);
        } else if (strcmp(argv[1], "beside") == 0) {
            pthread_t first;
            pthread_barrier_init(&barrier, NULL, 2);
            if (pthread_create(&first, NULL, wait_for_the_end, NULL) != 0)
                fail("no thread");
            install(argv[2], argv[4]);
        } else {
            install(argv[2], argv[4]);
        }
        if (strcmp(argv[1], "exec") == 0) {
            execl("/proc/self/exe", "sandbox", "filtered", argv[3], (char *)NULL);
            fail("exec");
        }
    }
    const char *how_much = argc == 5 ? argv[3] : argv[2];
    is_refused = strcmp(how_much, "refused") == 0;
    threads_stay = strcmp(how_much, "stay") == 0;
    if (with_threads)
        pthread_barrier_wait(&barrier);
    (void)work(NULL);
    if (with_threads && threads_stay)
        pthread_barrier_wait(&barrier);
    else if (with_threads)
        join(threads);
    bool is_dense = strcmp(how_much, "dense") == 0;
    if (is_dense || strcmp(how_much, "threads") == 0) {
        start(threads, work);
        join(threads);
    }
    if (is_dense)
        grow_dense();
    (void)!write(STDOUT_FILENO, "done\n", 5);
    if (strcmp(how_much, "exit") == 0)
        exit(0);
    _exit(0);
}
