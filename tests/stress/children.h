/*
 * children.h - child processes of the fork, exit and memory pressure tests. A child reports only through its exit
 * status, and dies when its parent dies. Hangs are found by CTest's timeout: the parent waits for a hanging child.
 */
#ifndef HZ_TESTS_STRESS_CHILDREN_H
#define HZ_TESTS_STRESS_CHILDREN_H

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <string>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace children {

/* Waits for the child and returns its status; -1 when there is no such child. */
inline int wait_for(pid_t child) {
    int status = 0;
    while (waitpid(child, &status, 0) != child)
        if (errno != EINTR)
            return -1;
    return status;
}

/* For use in a child or a signal handler: waits for `child` and returns its exit code; 99 if it did not exit. */
inline int code_of(pid_t child) {
    int status = child < 0 ? -1 : wait_for(child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}

inline std::string describe(int status) {
    if (WIFEXITED(status))
        return "exit code " + std::to_string(WEXITSTATUS(status));
    if (WIFSIGNALED(status))
        return std::string("signal ") + strsignal(WTERMSIG(status));
    return "status " + std::to_string(status);
}

/* Forks a child that runs `body` and leaves by _exit with its result. */
template <typename Body> pid_t start(Body body) {
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(body());
    }
    return child;
}

inline void expect_good_end(pid_t child) {
    ASSERT_GT(child, 0);
    int status = wait_for(child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "the child ended with " << describe(status);
}

/*
 * Roles: a test program executes itself again as its own child. Some tests need that because a limit must be in force
 * from the first instruction, or because they cannot run on top of the test framework's stack frames. The program's
 * main calls play() before it starts the tests.
 */
struct Role {
    const char *name;
    int (*run)();
};

inline constexpr const char *role_flag = "--role";

/* Runs the role named on the command line and exits; returns when the command line names none. */
template <size_t count> void play(int argc, char **argv, const Role (&roles)[count]) {
    if (argc != 3 || strcmp(argv[1], role_flag) != 0)
        return;
    for (const Role &role : roles)
        if (strcmp(role.name, argv[2]) == 0)
            exit(role.run());
    fprintf(stderr, "unknown role '%s'\n", argv[2]);
    exit(98);
}

/* Starts this program in a role, with its address space limited to `limit` bytes (0: limit unchanged). */
inline pid_t start_role(const char *name, size_t limit = 0) {
    fflush(nullptr);
    return start([=] {
        struct rlimit bounds = {};
        getrlimit(RLIMIT_AS, &bounds);
        bounds.rlim_cur = limit == 0 ? bounds.rlim_cur : limit;
        if (setrlimit(RLIMIT_AS, &bounds) != 0)
            return 97;
        execl("/proc/self/exe", "self", role_flag, name, nullptr);
        return 96;
    });
}

/* For roles: ends the process with a message when `holds` is false. The message includes `size` unless it is 0.
   Allocates nothing. */
inline void require(bool holds, const char *what, size_t size = 0) {
    if (holds)
        return;
    char text[200];
    int length = size == 0 ? snprintf(text, sizeof text, "not so: %s\n", what)
                           : snprintf(text, sizeof text, "not so: %s (size %zu)\n", what, size);
    (void)!write(STDERR_FILENO, text, static_cast<size_t>(length));
    _exit(1);
}

} // namespace children

#endif
