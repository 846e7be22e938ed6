/*
 * Misuse ends the program even in a thread with a pending cancellation. POSIX.1-2024 (2.9.5.2) makes write(2) a
 * cancellation point; a report through it would end the thread, run its clean-up handlers, and leave the program
 * running.
 */
#include "contract/api.h"
#include "contract/support.h"

#include <csignal>
#include <gtest/gtest.h>
#include <pthread.h>

namespace {

using namespace support;

void *misuse_while_cancelled(void *pointer) {
    pthread_cancel(pthread_self()); /* takes effect at the next cancellation point */
    t_free(pointer);
    return nullptr;
}

void in_a_cancelled_thread(void *pointer) {
    pthread_t thread;
    pthread_create(&thread, nullptr, misuse_while_cancelled, pointer);
    pthread_join(thread, nullptr);
}

TEST(Cancelled, MisuseStillEndsTheProgram) {
    static char bytes[64];
    EXPECT_EXIT(in_a_cancelled_thread(t_opaque(bytes)), testing::KilledBySignal(SIGABRT),
                "hakozuna: free of a pointer that is not from this allocator: 0x");
    char *block = static_cast<char *>(t_malloc(100000));
    EXPECT_EXIT(in_a_cancelled_thread(block + 32), testing::KilledBySignal(SIGABRT),
                "hakozuna: free of a pointer into the middle of a block: 0x");
    t_free(block);
}

} // namespace
