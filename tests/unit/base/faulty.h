/*
 * faulty.h - the loop of the *_faulty tests, in which each call to the operating system fails once.
 */
#ifndef HZ_TESTS_UNIT_BASE_FAULTY_H
#define HZ_TESTS_UNIT_BASE_FAULTY_H

#include "stress/children.h"
#include "unit/base/fixture.h"

extern "C" {
#include "base/os/os_faulty.h"
}

namespace unit {

/* Exit code of a child that finished its work before the call that would have failed. */
inline constexpr int never_failed = 42;

inline void os_works_again() {
    hz_os_faulty_fail(UINT64_MAX, 0);
}

/*
 * For N = 0, 1, 2, ... a fresh child runs prepare(), then work() with `count` calls refused after the first N, then
 * check() with an OS that works again. Stops when a run sees no refused call, and returns that N. Takes every fifth N
 * where children are slow.
 */
template <typename Prepare, typename Work, typename Check>
unsigned fail_each_call(uint64_t count, Prepare prepare, Work work, Check check) {
    for (unsigned after = 0;; after += support::tsan ? 5 : 1) {
        SCOPED_TRACE("after " + std::to_string(after) + " calls to the OS");
        int status = children::wait_for(children::start([&] {
            prepare();
            hz_os_faulty_fail(after, count);
            work();
            bool failed = hz_os_faulty_failures() > 0;
            os_works_again();
            check();
            return failed ? 0 : never_failed;
        }));
        bool exited = WIFEXITED(status);
        EXPECT_TRUE(exited) << "the child ended with " << children::describe(status);
        if (exited && WEXITSTATUS(status) == never_failed)
            return after;
        EXPECT_EQ(status, 0) << "the child ended with " << children::describe(status);
        if (status != 0)
            return after;
    }
}

/* Runs fail_each_call with one refused call, and with all calls refused from some call on. */
template <typename Prepare, typename Work, typename Check>
void fail_each_call_both_ways(unsigned at_least, Prepare prepare, Work work, Check check) {
    for (uint64_t count : {uint64_t{1}, UINT64_MAX})
        EXPECT_GE(fail_each_call(count, prepare, work, check), at_least)
            << "the work makes fewer OS calls than expected";
}

} // namespace unit

#endif
