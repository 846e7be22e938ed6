/*
 * actor.c - a process with threads that does what its stdin says and answers each line on stdout. While it waits for a
 * line, a test looks at it from outside, in /proc: all its threads sleep then, except between `churn` and `rest`.
 *
 *   start N           starts N workers
 *   stop              ends all workers and joins them
 *   burst KIB         each worker allocates KIB of blocks, then the next worker frees them in another order
 *   churn KIB, rest   each worker goes on to allocate and free KIB of blocks until `rest`
 *   fork              the child answers first and takes over; when it has ended, the parent answers and goes on
 *   forks N           forks N children that allocate, every tenth in a thread too; how many ended well
 *   load PATH         loads a module (module.c), has all workers call into it, and closes it
 *   filter            installs a seccomp filter that allows everything; the error
 *   unshare, setuid   makes the call; its error
 *   leave             ends the process's first thread by pthread_exit; another thread goes on
 *   return CODE, exit CODE, quick_exit CODE, _exit CODE, exec
 */
#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORKERS_MAX = 64, BLOCK_LEAST = 16, SIZE_STEPS = 11, OS_PAGE = 4096 };

enum order { START, BURST, CHURN, VISIT, END };

typedef void visit_function(void);

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_barrier_t turn; /* all workers, in a burst */
    enum order order;       /* lock */
    unsigned number;        /* lock: of the order */
    unsigned workers;       /* lock */
    unsigned busy;          /* lock: workers that have not done the order */
    size_t bytes;           /* lock */
    visit_function *visit;  /* lock */
} crew = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static pthread_t threads[WORKERS_MAX]; /* the thread that reads stdin */
static atomic_bool churning;

static _Noreturn void fail(const char *what) {
    dprintf(STDERR_FILENO, "actor: %s: %s\n", what, strerror(errno));
    abort();
}

/* ---- blocks ------------------------------------------------------------------------------------------ */

struct load {
    size_t **blocks; /* a mapping, so that it is no part of the heap */
    size_t room, count;
};

static struct load loads[WORKERS_MAX + 1]; /* the last one is for the thread that reads stdin */

static size_t below(uint64_t *random, size_t bound) {
    *random = *random * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (size_t)(*random >> 33) % bound;
}

/* Sizes from 16 bytes to 32 KiB, about as many bytes of each power of two. */
static void load_fill(struct load *load, size_t bytes, uint64_t *random) {
    load->room = bytes / BLOCK_LEAST + 1;
    load->count = 0;
    load->blocks =
        mmap(NULL, load->room * sizeof *load->blocks, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (load->blocks == MAP_FAILED)
        fail("mmap");
    for (size_t step = 0; step < SIZE_STEPS; step++)
        for (size_t sum = 0; sum < bytes / SIZE_STEPS;) {
            size_t size = ((size_t)BLOCK_LEAST << step) + below(random, (size_t)BLOCK_LEAST << step);
            size_t *block = malloc(size);
            if (block == NULL)
                fail("malloc");
            for (size_t at = 0; at < size; at += OS_PAGE)
                ((char *)block)[at] = 1;
            block[0] = (uintptr_t)block ^ size;
            block[1] = size;
            load->blocks[load->count++] = block;
            sum += size;
        }
}

static void load_free(struct load *load, uint64_t *random) {
    for (size_t i = load->count; i > 0; i--) {
        size_t other = below(random, i);
        size_t *block = load->blocks[other];
        load->blocks[other] = load->blocks[i - 1];
        if (block[0] != ((uintptr_t)block ^ block[1]))
            fail("a block has lost its contents");
        free(block);
    }
    munmap(load->blocks, load->room * sizeof *load->blocks);
}

static void mix(struct load *load, size_t bytes, uint64_t *random) {
    load_fill(load, bytes, random);
    load_free(load, random);
}

/* ---- workers ----------------------------------------------------------------------------------------- */

static void has_done(void) {
    pthread_mutex_lock(&crew.lock);
    if (--crew.busy == 0)
        pthread_cond_broadcast(&crew.changed);
    pthread_mutex_unlock(&crew.lock);
}

static void burst(size_t index, uint64_t *random) {
    load_fill(&loads[index], crew.bytes, random);
    pthread_barrier_wait(&crew.turn);
    load_free(&loads[(index + 1) % crew.workers], random);
}

static void churn(size_t index, uint64_t *random) {
    mix(&loads[index], crew.bytes, random);
    has_done(); /* from here on, the work goes on behind the answer */
    while (atomic_load(&churning))
        mix(&loads[index], crew.bytes, random);
}

static void *worker_main(void *argument) {
    size_t index = (size_t)argument;
    uint64_t random = index;
    for (unsigned seen = 0;;) {
        pthread_mutex_lock(&crew.lock);
        while (crew.number == seen)
            pthread_cond_wait(&crew.changed, &crew.lock);
        seen = crew.number;
        enum order order = crew.order;
        pthread_mutex_unlock(&crew.lock);
        if (order == CHURN) {
            churn(index, &random);
            continue;
        }
        if (order == BURST)
            burst(index, &random);
        if (order == VISIT)
            crew.visit();
        has_done();
        if (order == END)
            return NULL;
    }
}

/* Has all workers do something, and waits until they have. */
static void order(enum order order) {
    atomic_store(&churning, order == CHURN);
    pthread_mutex_lock(&crew.lock);
    crew.order = order;
    crew.number++;
    crew.busy = crew.workers;
    pthread_cond_broadcast(&crew.changed);
    while (crew.busy > 0)
        pthread_cond_wait(&crew.changed, &crew.lock);
    pthread_mutex_unlock(&crew.lock);
}

static void start(unsigned count) {
    crew.workers = count;
    crew.number = 0;
    pthread_barrier_init(&crew.turn, NULL, count);
    for (size_t i = 0; i < count; i++)
        if ((errno = pthread_create(&threads[i], NULL, worker_main, (void *)i)) != 0)
            fail("pthread_create");
    order(START);
}

static void stop(void) {
    order(END);
    for (unsigned i = 0; i < crew.workers; i++)
        pthread_join(threads[i], NULL);
    crew.workers = 0;
}

/* ---- other lines --------------------------------------------------------------------------------------- */

static int ended(pid_t child) {
    int status;
    if (waitpid(child, &status, 0) != child)
        fail("waitpid");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/* The child has no workers; the lock and the condition may be in any state. */
static pid_t fork_alone(void) {
    pid_t child = fork();
    if (child < 0)
        fail("fork");
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        crew.workers = 0;
        pthread_mutex_init(&crew.lock, NULL);
        pthread_cond_init(&crew.changed, NULL);
    }
    return child;
}

static void *child_thread(void *unused) {
    (void)unused;
    uint64_t random = 7;
    mix(&loads[0], 256 << 10, &random);
    return NULL;
}

static _Noreturn void child_body(unsigned number) {
    uint64_t random = number;
    mix(&loads[WORKERS_MAX], 256 << 10, &random);
    pthread_t thread;
    if (number % 10 == 0 && pthread_create(&thread, NULL, child_thread, NULL) == 0)
        pthread_join(thread, NULL);
    if (number % 2 == 0)
        _exit(0);
    exit(0);
}

static unsigned forks(unsigned count) {
    unsigned well = 0;
    for (unsigned i = 0; i < count; i++) {
        pid_t child = fork_alone();
        if (child == 0)
            child_body(i);
        well += ended(child) == 0;
    }
    return well;
}

static void load_module(const char *path) {
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (module == NULL) {
        dprintf(STDERR_FILENO, "actor: %s\n", dlerror());
        abort();
    }
    crew.visit = (visit_function *)(uintptr_t)dlsym(module, "visit");
    crew.visit();
    order(VISIT);
    dlclose(module);
}

static int filter(void) {
    struct sock_filter allow[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {.len = 1, .filter = allow};
    bool done =
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
    return done ? 0 : errno;
}

static void at_end(void) {
    uint64_t random = 3;
    mix(&loads[WORKERS_MAX], 1 << 20, &random);
}

/* ---- the lines -------------------------------------------------------------------------------------------- */

static bool line_read(char *line, size_t room) {
    size_t length = 0;
    while (length + 1 < room && read(STDIN_FILENO, &line[length], 1) == 1 && line[length] != '\n')
        length++;
    line[length] = '\0';
    return length > 0;
}

static bool order_line(const char *word, unsigned number) {
    if (strcmp(word, "start") == 0)
        start(number);
    else if (strcmp(word, "stop") == 0)
        stop();
    else if (strcmp(word, "rest") == 0)
        order(START);
    else if (strcmp(word, "burst") == 0 || strcmp(word, "churn") == 0) {
        crew.bytes = (size_t)number << 10;
        order(word[0] == 'b' ? BURST : CHURN);
    } else
        return false;
    dprintf(STDOUT_FILENO, "%s\n", word);
    return true;
}

static bool process_line(const char *word, unsigned number, const char *path) {
    int value = 0;
    if (strcmp(word, "forks") == 0)
        value = (int)forks(number);
    else if (strcmp(word, "filter") == 0)
        value = filter();
    else if (strcmp(word, "unshare") == 0)
        value = unshare(CLONE_NEWUSER) == 0 ? 0 : errno;
    else if (strcmp(word, "setuid") == 0)
        value = setresuid(getuid(), geteuid(), geteuid()) == 0 ? 0 : errno;
    else if (strcmp(word, "load") == 0)
        load_module(path);
    else if (strcmp(word, "fork") == 0) {
        pid_t child = fork_alone();
        value = child == 0 ? getpid() : ended(child);
    } else
        return false;
    dprintf(STDOUT_FILENO, "%s %d\n", word, value);
    return true;
}

static void *heir_main(void *unused);

/* Comes back when the thread shall return. */
static int lines(void) {
    char line[5000];
    while (line_read(line, sizeof line)) {
        char word[20] = "";
        unsigned number = 0;
        (void)sscanf(line, "%19s %u", word, &number);
        if (order_line(word, number) || process_line(word, number, line + strlen(word) + 1))
            continue;
        if (strcmp(word, "return") == 0)
            return (int)number;
        if (strcmp(word, "exit") == 0)
            exit((int)number);
        if (strcmp(word, "quick_exit") == 0)
            quick_exit((int)number);
        if (strcmp(word, "_exit") == 0)
            _exit((int)number);
        if (strcmp(word, "exec") == 0)
            execl("/bin/true", "true", NULL);
        pthread_t heir;
        if (strcmp(word, "leave") == 0 && pthread_create(&heir, NULL, heir_main, NULL) == 0)
            pthread_exit(NULL);
        fail(line);
    }
    return 0;
}

static void *heir_main(void *unused) {
    dprintf(STDOUT_FILENO, "leave\n");
    (void)lines();
    return unused;
}

int main(void) {
    if (atexit(at_end) != 0 || at_quick_exit(at_end) != 0)
        return 1;
    dprintf(STDOUT_FILENO, "ready\n");
    return lines();
}
