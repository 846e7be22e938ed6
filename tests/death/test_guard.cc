/*
 * Misuse of a guarded block ends the program with a report: a stable first line, what is known about the block, and the
 * calls that freed, allocated and touched it. Here every allocation is guarded. base/watch/guard_report.h and
 * base/os/check.h have the texts.
 */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#include <stdatomic.h>
extern "C" {
#include "base/os/check.h"
#include "base/watch/guard_report.h"
#include "heap/threads/sample.h"
}
#pragma GCC diagnostic pop
#include "contract/api.h"
#include "contract/support.h"

#include <csignal>
#include <gtest/gtest.h>
#include <pthread.h>

namespace {

using namespace support;

constexpr size_t os_page = 4096;

/* Ends by abort, or by the signal of the access. AddressSanitizer handles that signal, and exits. */
bool ends_as_it_should(int status) {
    if (WIFSIGNALED(status))
        return WTERMSIG(status) == SIGABRT || WTERMSIG(status) == SIGSEGV;
    return sanitized && WIFEXITED(status) && WEXITSTATUS(status) != 0;
}

using Misuse = void (*)();

struct Row {
    const char *name;
    const char *text;
    const char *block; /* the second line, a POSIX extended regular expression */
    Misuse misuse;
};

char *make(size_t size) {
    return static_cast<char *>(t_opaque(t_malloc(size)));
}

/* At the wanted edge of its room: at the right edge the next page begins behind the block. */
char *make_at(size_t size, bool left) {
    for (;;) {
        char *block = make(size);
        bool ends_page = aligned_to(block + (size + 15) / 16 * 16, os_page);
        if (aligned_to(block, os_page) == left && ends_page != left)
            return block;
        t_free(block);
    }
}

void touch(volatile char *address) {
    *address = 1;
}

template <size_t size> void overflow() {
    touch(make_at(size, false) + (size + 15) / 16 * 16);
}

void overflow_of_full_room() {
    touch(make(16384) + 16384);
}

template <size_t size> void underflow() {
    touch(make_at(size, true) - 1);
}

void read_far_behind() {
    volatile char *block = make_at(100, false);
    (void)block[100 + 3000];
}

void use_after_free() {
    char *block = make(100);
    t_free(block);
    touch(block + 7);
}

void read_after_free() {
    volatile char *block = make(5000);
    t_free(const_cast<char *>(block));
    (void)block[4999];
}

void use_after_realloc() {
    char *block = make(100);
    char *moved = static_cast<char *>(t_realloc(block, 50));
    touch(moved);
    touch(block);
}

void *free_it(void *block) {
    t_free(block);
    return nullptr;
}

void free_in_another_thread(void *block) {
    pthread_t thread;
    pthread_create(&thread, nullptr, free_it, block);
    pthread_join(thread, nullptr);
}

void use_after_free_elsewhere() {
    char *block = make(30);
    free_in_another_thread(block);
    touch(block);
}

void double_free() {
    char *block = make(100);
    t_free(block);
    t_free(block);
}

void double_free_later() {
    char *block = make(100);
    t_free(block);
    for (int i = 0; i < 100; i++)
        t_free(make(100));
    free_in_another_thread(block);
}

void free_inside() {
    t_free(make(100) + 16);
}

void free_inside_freed() {
    char *block = make(100);
    t_free(block);
    t_free(block + 1);
}

void realloc_freed() {
    char *block = make(100);
    t_free(block);
    (void)t_realloc(block, 200);
}

void realloc_inside() {
    (void)t_realloc(make(100) + 1, 200);
}

void usable_size_of_freed() {
    char *block = make(100);
    t_free(block);
    (void)t_usable_size(block);
}

void overwrite_by_one() {
    char *block = make(100);
    block[100] = 0;
    t_free(block);
}

void underwrite_by_one() {
    char *block = make_at(100, false);
    block[-1] = 0;
    t_free(block);
}

void overwrite_before_realloc() {
    char *block = make(100);
    block[101] = 0;
    t_free(t_realloc(block, 1000));
}

const Row rows[] = {
    {"WriteBehind", HZ_TEXT_GUARD_BEHIND, "[0-9]+ bytes behind a live block of 100 bytes", overflow<100>},
    {"WriteBehindFullRoom", HZ_TEXT_GUARD_BEHIND, "0 bytes behind a live block of 16384 bytes", overflow_of_full_room},
    {"ReadFarBehind", HZ_TEXT_GUARD_BEHIND, "3000 bytes behind a live block of 100 bytes", read_far_behind},
    {"WriteBefore", HZ_TEXT_GUARD_BEFORE, "1 bytes before a live block of 100 bytes", underflow<100>},
    {"UseAfterFree", HZ_TEXT_GUARD_FREED, "7 bytes inside a freed block of 100 bytes", use_after_free},
    {"ReadAfterFree", HZ_TEXT_GUARD_FREED, "4999 bytes inside a freed block of 5000 bytes", read_after_free},
    {"UseAfterRealloc", HZ_TEXT_GUARD_FREED, "0 bytes inside a freed block of 100 bytes", use_after_realloc},
    {"UseAfterFreeElsewhere", HZ_TEXT_GUARD_FREED, "0 bytes inside a freed block of 30 bytes",
     use_after_free_elsewhere},
    {"DoubleFree", HZ_TEXT_DOUBLE_FREE, "0 bytes inside a freed block of 100 bytes", double_free},
    {"DoubleFreeLater", HZ_TEXT_DOUBLE_FREE, "0 bytes inside a freed block of 100 bytes", double_free_later},
    {"FreeInside", HZ_TEXT_INTERIOR, "16 bytes inside a live block of 100 bytes", free_inside},
    {"FreeInsideFreed", HZ_TEXT_INTERIOR, "1 bytes inside a freed block of 100 bytes", free_inside_freed},
    {"ReallocOfFreed", HZ_TEXT_GUARD_FREED, "0 bytes inside a freed block of 100 bytes", realloc_freed},
    {"ReallocInside", HZ_TEXT_INTERIOR, "1 bytes inside a live block of 100 bytes", realloc_inside},
    {"UsableSizeOfFreed", HZ_TEXT_GUARD_FREED, "0 bytes inside a freed block of 100 bytes", usable_size_of_freed},
    {"OverwriteByOne", HZ_TEXT_GUARD_OVERWRITE, "0 bytes inside a freed block of 100 bytes", overwrite_by_one},
    {"UnderwriteByOne", HZ_TEXT_GUARD_UNDERWRITE, "0 bytes inside a freed block of 100 bytes", underwrite_by_one},
    {"OverwriteBeforeRealloc", HZ_TEXT_GUARD_OVERWRITE, "0 bytes inside a freed block of 100 bytes",
     overwrite_before_realloc},
};

void PrintTo(const Row &row, std::ostream *out) {
    *out << row.name;
}

class GuardedMisuse : public testing::TestWithParam<Row> {};

void sample_and(Misuse misuse) {
    if (!hz_sample_start(1))
        _exit(3);
    misuse();
    _exit(0);
}

TEST_P(GuardedMisuse, EndsWithItsReport) {
    const Row &row = GetParam();
    std::string call = "(    [^\n]*\n)+";
    std::string thread = "thread [0-9]+:\n";
    bool freed = strstr(row.block, "freed") != nullptr;
    std::string report = std::string("hakozuna: ") + row.text + " 0x[0-9a-f]+\n  " + row.block + " at 0x[0-9a-f]+\n" +
                         (freed ? "  freed by " + thread + call : "") + "  allocated by " + thread + call +
                         "  found in " + thread + call;
    EXPECT_EXIT(sample_and(row.misuse), ends_as_it_should, report);
}

INSTANTIATE_TEST_SUITE_P(Table, GuardedMisuse, testing::ValuesIn(rows),
                         [](const testing::TestParamInfo<Row> &each) { return std::string(each.param.name); });

TEST(GuardedMisuseDeath, SizedFreeIsExactInTheCheckBuild) {
    if (!t_config_has("checks=1"))
        GTEST_SKIP() << "only the check build notices this";
    EXPECT_EXIT(sample_and([] { t_free_sized(make(100), 101); }), testing::KilledBySignal(SIGABRT), HZ_TEXT_SIZE);
}

void correct_use() {
    t_free(nullptr);
    for (size_t size : sample_sizes()) {
        t_free_sized(make(size), size);
        void *aligned = t_aligned_alloc(512, size);
        memset(aligned, 1, size);
        t_free_aligned_sized(aligned, 512, size);
        void *grown = t_realloc(make(size), size + 100);
        memset(grown, 1, size + 100);
        free_in_another_thread(grown);
    }
    fprintf(stderr, "well\n");
}

TEST(GuardedMisuseDeath, CorrectUseDoesNotEnd) {
    EXPECT_EXIT(sample_and(correct_use), testing::ExitedWithCode(0), "^well\n$");
}

/* ---- the signal ---- */

void say(const char *text) {
    (void)!write(STDERR_FILENO, text, strlen(text));
}

void with_info(int, siginfo_t *info, void *) {
    say(info->si_addr != nullptr ? "former handler\n" : "former handler, no address\n");
    _exit(7);
}

void without_info(int) {
    say("former handler\n");
    _exit(7);
}

void install(int flags) {
    struct sigaction action = {};
    if ((flags & SA_SIGINFO) != 0)
        action.sa_sigaction = with_info;
    else
        action.sa_handler = without_info;
    action.sa_flags = flags;
    sigaction(SIGSEGV, &action, nullptr);
}

void fault_elsewhere() {
    touch(t_opaque(reinterpret_cast<char *>(uintptr_t{64})));
}

void former_handler(int flags, Misuse misuse) {
    install(flags);
    sample_and(misuse);
}

TEST(GuardSignal, FormerHandlerComesAfterAReport) {
    for (int flags : {0, SA_SIGINFO})
        EXPECT_EXIT(former_handler(flags, use_after_free), testing::ExitedWithCode(7),
                    HZ_TEXT_GUARD_FREED "(.|\n)*former handler\n$");
}

TEST(GuardSignal, FormerHandlerGetsWhatIsNotOurs) {
    for (int flags : {0, SA_SIGINFO}) {
        EXPECT_EXIT(former_handler(flags, fault_elsewhere), testing::ExitedWithCode(7), "^former handler\n$");
        EXPECT_EXIT(former_handler(flags, [] { raise(SIGSEGV); }), testing::ExitedWithCode(7), "^former handler");
    }
}

volatile sig_atomic_t handled;

bool is_blocked(int signal_number) {
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    return sigismember(&blocked, signal_number) == 1;
}

void count(int) {
    if (!is_blocked(SIGUSR1))
        _exit(5);
    handled = handled + 1;
    if (handled > 10)
        _exit(7);
}

/* A handler that returns is called for each signal, with the mask that it wants, and ours stays in front of it. */
void repeated() {
    struct sigaction action = {};
    action.sa_handler = count;
    sigaddset(&action.sa_mask, SIGUSR1);
    sigaction(SIGSEGV, &action, nullptr);
    if (!hz_sample_start(1))
        _exit(3);
    raise(SIGSEGV);
    raise(SIGSEGV);
    if (handled != 2 || is_blocked(SIGSEGV) || is_blocked(SIGUSR1))
        _exit(4);
    use_after_free(); /* after the report the access is repeated, and the handler called, again and again */
}

TEST(GuardSignal, FormerHandlerIsCalledEachTime) {
    EXPECT_EXIT(repeated(), testing::ExitedWithCode(7), HZ_TEXT_GUARD_FREED);
}

TEST(GuardSignal, WithoutAHandlerTheProgramEndsAsEver) {
    if (sanitized)
        GTEST_SKIP() << "the sanitizer has a handler";
    EXPECT_EXIT(sample_and(fault_elsewhere), testing::KilledBySignal(SIGSEGV), "^$");
    EXPECT_EXIT(sample_and([] { raise(SIGSEGV); }), testing::KilledBySignal(SIGSEGV), "^$");
    EXPECT_EXIT((signal(SIGSEGV, SIG_IGN), sample_and([] {
                     raise(SIGSEGV);
                     say("ignored\n");
                 })),
                testing::ExitedWithCode(0), "^ignored\n$");
    EXPECT_EXIT((signal(SIGSEGV, SIG_IGN), sample_and(fault_elsewhere)), testing::KilledBySignal(SIGSEGV), "^$");
}

TEST(GuardSignal, AHandlerThatIsInstalledLaterWins) {
    EXPECT_EXIT(sample_and([] {
                    install(0);
                    use_after_free();
                }),
                testing::ExitedWithCode(7), "^former handler\n$");
}

constexpr int thread_count = 8;
pthread_barrier_t barrier;

void *free_twice(void *block) {
    t_free(block);
    pthread_barrier_wait(&barrier);
    t_free(block);
    return nullptr;
}

/* The handler of SIGABRT makes each thread wait until all have arrived. */
void await_all(int) {
    pthread_barrier_wait(&barrier);
    _exit(7);
}

/* Threads that make a mistake at the same time: one writes a report, and only one. */
void many_at_once() {
    pthread_t threads[thread_count];
    pthread_barrier_init(&barrier, nullptr, thread_count);
    signal(SIGABRT, await_all);
    for (pthread_t &thread : threads)
        pthread_create(&thread, nullptr, free_twice, make(10));
    for (pthread_t thread : threads)
        pthread_join(thread, nullptr);
}

TEST(GuardSignal, OneReportForManyThreads) {
    EXPECT_EXIT(sample_and(many_at_once), testing::ExitedWithCode(7),
                "^hakozuna: " HZ_TEXT_DOUBLE_FREE "[^\n]*\n( [^\n]*\n)+$");
}

/* A crash reporter's handler of SIGABRT allocates and frees. */
void reporter(int) {
    for (int i = 0; i < 1000; i++)
        t_free(make(100));
    say("reported\n");
    _exit(7);
}

TEST(GuardSignal, HandlersOfAbortCanAllocate) {
    EXPECT_EXIT((signal(SIGABRT, reporter), sample_and(double_free)), testing::ExitedWithCode(7), "reported\n$");
}

void in_a_child() {
    char *block = make(100);
    pid_t child = fork();
    if (child == 0) {
        t_free(block);
        touch(block);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (!ends_as_it_should(status))
        _exit(5);
    memset(block, 1, 100); /* the parent's is live */
    t_free(block);
    say("parent goes on\n");
}

TEST(GuardSignal, ChildrenOfAForkReportForThemselves) {
    EXPECT_EXIT(sample_and(in_a_child), testing::ExitedWithCode(0), HZ_TEXT_GUARD_FREED "(.|\n)*parent goes on\n$");
}

} // namespace
