/*
 * Every call to the operating system fails once. For N = 0, 1, 2, ... a fresh process does the same work while call N
 * fails (N alone, N and the next two, or N and all later ones), until N exceeds the number of calls of the work
 * (sanitizer builds take every seventh N). Meanwhile malloc must either succeed or return NULL with ENOMEM, and blocks
 * stay intact. When the OS works again, everything works again.
 */
extern "C" {
#include "base/os/os_faulty.h"
}
#include "blocks.h"
#include "children.h"
#include "threads.h"

#include <gtest/gtest.h>

namespace {

using namespace support;
using children::require;

/* The exit code of a child whose work ended before call N. */
constexpr int never_failed = 42;

constexpr size_t sizes[] = {16, 200, 2000, 9 * KiB, 60 * KiB, 150 * KiB, MiB, 3 * MiB};
constexpr size_t held_count = 4;

bool good_or_enomem(const void *block) {
    return block != nullptr || errno == ENOMEM;
}

void *resize(void *block, size_t old_size, size_t size) {
    errno = 0;
    void *resized = t_realloc(block, size);
    require(good_or_enomem(resized), "realloc fails with ENOMEM");
    const void *now = resized == nullptr ? block : resized;
    require(holds(now, std::min(old_size, size), 9), "realloc keeps contents, even when it fails");
    return resized == nullptr ? block : resized;
}

/* A bit of everything: all size ranges, alignment, growth, calloc, purge. */
void work_once() {
    for (size_t size : sizes) {
        void *held[held_count];
        for (void *&block : held) {
            errno = 0;
            block = blocks::make(size, size);
            require(good_or_enomem(block), "malloc fails with ENOMEM");
        }
        errno = 0;
        void *zeroed = t_calloc(3, size);
        require(good_or_enomem(zeroed), "calloc fails with ENOMEM");
        require(zeroed == nullptr || is_zero(zeroed, 3 * size), "calloc's block is zero");
        void *aligned = nullptr;
        int error = t_posix_memalign(&aligned, 64 * KiB, size);
        require(error == 0 || (error == ENOMEM && aligned == nullptr), "posix_memalign fails with ENOMEM");
        errno = EILSEQ;
        for (void *block : held)
            require(blocks::drop(block), "contents survive");
        t_free(zeroed);
        t_free(aligned);
        require(errno == EILSEQ, "free keeps errno");
    }
    void *block = t_malloc(100);
    if (block == nullptr)
        return;
    fill(block, 100, 9);
    size_t before = 100;
    for (size_t size : {size_t{3000}, 100 * KiB, 3 * MiB, 9 * MiB, 3 * MiB, size_t{500}}) {
        block = resize(block, before, size);
        if (t_usable_size(block) >= size) {
            fill(block, size, 9);
            before = size;
        }
    }
    t_free(block);
    (void)t_table.purge_fn();
}

void *work_in_thread(void *) {
    work_once();
    return nullptr;
}

int run_with_failure(uint64_t after, uint64_t count) {
    hz_os_faulty_fail(after, count);
    work_once();
    pthread_t thread;
    require(threads::start(&thread, work_in_thread, nullptr) == 0, "a thread starts");
    pthread_join(thread, nullptr);
    uint64_t failures = hz_os_faulty_failures();
    hz_os_faulty_fail(UINT64_MAX, 0);
    for (size_t size : sizes) {
        void *block = blocks::make(size, 1);
        require(block != nullptr, "malloc works again once the OS does");
        require(blocks::drop(block), "contents survive");
    }
    require(live_bytes() == 0, "nothing is lost");
    return failures == 0 ? never_failed : 0;
}

/* Runs a child for each N, in which `count` calls from call N on fail, until a child makes too few calls for one to
   fail. */
void fail_each_call(uint64_t count) {
    constexpr uint64_t step = sanitized ? 7 : 1;
    uint64_t after = 0;
    for (;; after += step) {
        SCOPED_TRACE("after " + std::to_string(after) + " calls to the OS");
        int status = children::wait_for(children::start([=] { return run_with_failure(after, count); }));
        ASSERT_TRUE(WIFEXITED(status)) << "the child ended with " << children::describe(status);
        if (WEXITSTATUS(status) == never_failed)
            break;
        ASSERT_EQ(WEXITSTATUS(status), 0);
    }
    EXPECT_GE(after, 10U) << "suspiciously few calls to the OS: are they counted?";
}

TEST(FaultyOs, OneCallFails) {
    fail_each_call(1);
}

TEST(FaultyOs, OneCallAndAllLaterOnesFail) {
    fail_each_call(UINT64_MAX);
}

TEST(FaultyOs, AFewCallsInARowFail) {
    fail_each_call(3);
}

} // namespace
