/* hz_leaks_check when the OS refuses memory: it says so, loses nothing, and stops no thread for good. */
#include "unit/library.h"
#include "unit/together.h"

#include <atomic>
#include <cerrno>
#include <gtest/gtest.h>
#include <thread>

extern "C" {
#include "base/os/os_faulty.h"
}

namespace {

void check_with_each_call_refused() {
    if (support::sanitized)
        GTEST_SKIP() << "a sanitizer's shadow is terabytes of memory, in which addresses would be looked for";
    struct hz_leaks usual = {};
    ASSERT_EQ(hz_leaks_check(-1, &usual, sizeof(usual)), 0) << errno;
    size_t mapped = hz_os_faulty_mapped_bytes() - hz_os_faulty_kept_bytes();
    for (uint64_t call = 0;; call++) {
        ASSERT_LT(call, 100U);
        struct hz_leaks found = {};
        errno = 0;
        hz_os_faulty_fail(call, 1);
        int result = hz_leaks_check(-1, &found, sizeof(found));
        int error = errno;
        uint64_t refused = hz_os_faulty_failures();
        hz_os_faulty_fail(UINT64_MAX, 0);
        EXPECT_EQ(hz_os_faulty_mapped_bytes() - hz_os_faulty_kept_bytes(), mapped) << call;
        if (refused == 0) {
            EXPECT_EQ(result, 0);
            EXPECT_GT(call, 3U);
            return;
        }
        if (result == 0) /* what was refused was no memory */
            EXPECT_EQ(found.live_blocks, usual.live_blocks);
        else
            EXPECT_EQ(error, ENOMEM) << call;
    }
}

TEST(LeaksFaulty, WithOneThread) {
    void *block = hz_malloc(100);
    check_with_each_call_refused();
    hz_free(block);
}

TEST(LeaksFaulty, WithThreadsThatAreStopped) {
    std::atomic<bool> over{false};
    std::atomic<bool> has_begun{false};
    std::thread other([&] {
        void *block = hz_malloc(100);
        has_begun = true;
        while (!over)
            std::this_thread::yield();
        hz_free(block);
    });
    while (!has_begun)
        std::this_thread::yield();
    check_with_each_call_refused();
    over = true;
    other.join();
}

} // namespace
