/*
 * steps.h - stops a thread at each of its instructions, so that a test can fork at every instant of an operation. The
 * processor's trap flag makes every instruction end with a SIGTRAP, and the signal's handler calls the test. Needs no
 * special build of the library; x86-64 only.
 */
#ifndef HZ_TESTS_UNIT_HEAP_THREADS_STEPS_H
#define HZ_TESTS_UNIT_HEAP_THREADS_STEPS_H

#include "preload/programs/trap.h"
#include "stress/children.h"

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <functional>

extern "C" const char __executable_start;

namespace steps {

inline constexpr bool possible = TRAP_POSSIBLE != 0;

/* What the handler calls, at step `count` and instruction `place`; false: no more steps. */
using Visit = std::function<bool(size_t count, uintptr_t place)>;

struct Walk {
    enum { BEGINS, GOES, ENDS } state;
    size_t stride;
    size_t count;
    const Visit *visit;
};

inline thread_local Walk *walking = nullptr;

inline void on_trap(int, siginfo_t *, void *context) {
    int saved = errno;
    Walk *walk = walking;
    bool go = walk->state != Walk::ENDS;
    if (walk->state == Walk::GOES && ++walk->count % walk->stride == 0)
        go = (*walk->visit)(walk->count, trap_place(context) - reinterpret_cast<uintptr_t>(&__executable_start));
    walk->state = walk->state == Walk::BEGINS ? Walk::GOES : walk->state;
    trap_set(context, go);
    errno = saved;
}

/* Runs the operation, and calls `visit` after every `stride`th of its instructions. Returns their number. */
template <typename Operation> size_t walk(size_t stride, Operation operation, const Visit &visit) {
    struct sigaction action = {};
    action.sa_sigaction = on_trap;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    sigaction(SIGTRAP, &action, nullptr);
    Walk walk = {Walk::BEGINS, stride, 0, &visit};
    walking = &walk;
    raise(SIGTRAP);
    operation();
    walk.state = Walk::ENDS;
    return walk.count;
}

/* Runs the operation and forks at every `stride`th instruction, from the signal handler. Each child goes on with the
   operation and then calls `check`, which ends it unless all is well. Returns the number of children that did not end
   well, and says on stderr where they were forked. */
template <typename Operation, typename Check> size_t fork_at_each(size_t stride, Operation operation, Check check) {
    enum { FAILURES_MAX = 5, CHILD_SECONDS = 30 };
    bool is_child = false;
    size_t failures = 0;
    size_t forks = 0;
    size_t total = walk(stride, operation, [&](size_t count, uintptr_t place) {
        pid_t child = fork();
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            alarm(CHILD_SECONDS);
            is_child = true;
            return false;
        }
        int status = child < 0 ? -1 : children::wait_for(child);
        forks++;
        if (status == 0)
            return true;
        char text[120];
        int length = snprintf(text, sizeof text, "forked after instruction %zu, at 0x%zx: status 0x%x\n", count,
                              static_cast<size_t>(place), static_cast<unsigned>(status));
        (void)!write(STDERR_FILENO, text, static_cast<size_t>(length));
        return ++failures < FAILURES_MAX;
    });
    if (is_child) {
        check();
        _exit(0);
    }
    children::require(total >= stride && forks > 0, "the operation was interrupted");
    return failures;
}

} // namespace steps

#endif
