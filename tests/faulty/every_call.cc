/*
 * every_call.cc - a main for the contract suite over an OS that fails one call, once. A refused call must not be seen
 * by the program: the library gives up what it does not need and tries again. So each test of the suite must pass,
 * whichever call fails.
 *
 * For N = 0, 1, 2, ... a child runs all tests while call N fails, until a child makes fewer calls. Numbers are skipped,
 * so that about HZ_FAULTY_RUNS children run (default 2); HZ_FAULTY_RUNS=0 skips none.
 */
#include "stress/children.h"

#include <cstdlib>
#include <gtest/gtest.h>
#include <string>
#include <sys/mman.h>

extern "C" {
#include "base/os/os_faulty.h"
}

namespace {

constexpr uint64_t default_runs = 2;

struct Counts {
    uint64_t calls;
    uint64_t failures;
};

uint64_t runs_wanted() {
    const char *value = getenv("HZ_FAULTY_RUNS");
    char *end = nullptr;
    uint64_t runs = value == nullptr ? default_runs : strtoull(value, &end, 10);
    if (value != nullptr && (end == value || *end != '\0')) {
        fprintf(stderr, "HZ_FAULTY_RUNS=%s: want a number, 0 for all\n", value);
        exit(2);
    }
    return runs;
}

/* Runs all tests in a child while call `after` fails; its status. The library has not been used in this process. */
int run_with_failure(uint64_t after, const char *log, Counts *counts) {
    fflush(nullptr);
    *counts = {};
    return children::wait_for(children::start([=] {
        if (freopen(log, "w", stdout) == nullptr)
            return 97;
        hz_os_faulty_fail(after, 1);
        int result = RUN_ALL_TESTS();
        *counts = {hz_os_faulty_calls(), hz_os_faulty_failures()};
        fflush(nullptr);
        return result;
    }));
}

void print(const char *log) {
    char line[1000];
    if (FILE *file = fopen(log, "r"); file != nullptr) {
        while (fgets(line, sizeof line, file) != nullptr)
            if (strstr(line, "       OK ") == nullptr && strstr(line, "[ RUN ") == nullptr)
                fputs(line, stdout);
        fclose(file);
    }
}

} // namespace

int main(int argc, char **argv) {
    testing::InitGoogleTest(&argc, argv);
    uint64_t runs = runs_wanted();
    auto *counts =
        static_cast<Counts *>(mmap(nullptr, sizeof(Counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    char log[] = "/tmp/hz_every_call_XXXXXX";
    if (counts == MAP_FAILED || mkstemp(log) < 0)
        return 2;
    int status = run_with_failure(UINT64_MAX, log, counts);
    uint64_t all = counts->calls;
    uint64_t step = runs == 0 ? 1 : std::max<uint64_t>(all / runs, 1);
    uint64_t failed = 0;
    for (uint64_t after = 0; status == 0 && after < all; after += step) {
        status = run_with_failure(after, log, counts);
        failed += counts->failures;
        if (status != 0)
            printf("call %llu of %llu failed:\n", static_cast<unsigned long long>(after),
                   static_cast<unsigned long long>(all));
    }
    if (status != 0) {
        print(log);
        printf("the tests ended with %s\n", children::describe(status).c_str());
    }
    printf("[==========] %llu of %llu calls failed, one in each run\n", static_cast<unsigned long long>(failed),
           static_cast<unsigned long long>(all));
    unlink(log);
    return status == 0 && failed > 0 ? 0 : 1;
}
