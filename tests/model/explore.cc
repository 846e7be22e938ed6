/*
 * explore.cc - many runs of a scenario, each in a child of fork. So the library starts from nothing, and a run that
 * crashes is a failure like any other.
 */
#include "model/run.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace model {

namespace {

constexpr unsigned bug_factor = 40; /* finding a planted bug may take this many times the schedules */
constexpr uint64_t steps_printed = 40;
constexpr unsigned seconds_most = 20; /* limit for a run, which takes milliseconds unless it hangs */

using Scenario = std::function<void()>;

Report *shared_report() {
    static Report *const report = [] {
        void *memory = mmap(nullptr, sizeof(Report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED)
            std::abort();
        return static_cast<Report *>(memory);
    }();
    return report;
}

/* Only one thread runs at a time, and changing threads is fastest on one CPU. */
void stay_here() {
    cpu_set_t here;
    CPU_ZERO(&here);
    CPU_SET(static_cast<size_t>(sched_getcpu()), &here);
    (void)sched_setaffinity(0, sizeof(here), &here);
}

[[noreturn]] void run_here(const Plan &plan, const Scenario &scenario, bool quiet) {
    struct rlimit no_core = {0, 0};
    (void)setrlimit(RLIMIT_CORE, &no_core);
    if (quiet) {
        int nowhere = open("/dev/null", O_WRONLY);
        (void)dup2(nowhere, STDERR_FILENO);
    }
    alarm(seconds_most);
    stay_here();
    run = new Run(plan, shared_report());
    myself = &run->threads[0];
    scenario();
    _exit(0);
}

/* A positive number from the environment; 0 if the variable is not set. */
uint64_t number_from(const char *name) {
    const char *text = std::getenv(name);
    if (text == nullptr)
        return 0;
    char *end;
    uint64_t number = std::strtoull(text, &end, 10);
    if (*end == '\0' && number > 0)
        return number;
    std::fprintf(stderr, "%s is '%s'; want a number above 0\n", name, text);
    std::exit(2);
}

/* The last steps: as many as were kept if HZ_MODEL_SEED names the schedule, else a few. */
std::string last_steps(const Report &report) {
    std::string text;
    uint64_t most = number_from("HZ_MODEL_SEED") != 0 ? uint64_t{Report::STEPS_KEPT} : steps_printed;
    uint64_t first = report.noted < most ? 0 : report.noted - most;
    for (uint64_t at = first; at < report.noted; at++) {
        const Step &step = report.last[at % Report::STEPS_KEPT];
        const char *slash = std::strrchr(step.file, '/');
        char line[160];
        std::snprintf(line, sizeof(line), "  thread %u  %s:%d  object %u%s\n", step.thread,
                      slash == nullptr ? step.file : slash + 1, step.line, step.place,
                      step.is_old ? ", an old value" : "");
        text += line;
    }
    return text;
}

/* Runs one schedule. False when it failed; then `found` says why. */
bool run_once(const Plan &plan, const Scenario &scenario, bool quiet, Explored *found) {
    Report &report = *shared_report();
    report = Report{};
    pid_t child = fork();
    if (child < 0)
        std::abort();
    if (child == 0)
        run_here(plan, scenario, quiet);
    int status = 0;
    while (waitpid(child, &status, 0) < 0) {
    }
    found->schedules++;
    found->steps_most = std::max(found->steps_most, report.steps);
    for (unsigned fact = 0; fact < FACTS_MAX; fact++)
        found->facts[fact] += report.facts[fact] > 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    found->failed = true;
    found->seed = plan.seed;
    found->text = report.text;
    if (found->text.empty())
        found->text = WIFSIGNALED(status) ? std::string("ended by signal: ") + strsignal(WTERMSIG(status)) : "ended";
    found->text += "\n" + last_steps(report);
    return false;
}

bool expects_bug() {
    const char *expected = std::getenv("HZ_MODEL_EXPECT");
    if (expected == nullptr)
        return false;
    if (std::strcmp(expected, "bug") == 0)
        return true;
    std::fprintf(stderr, "HZ_MODEL_EXPECT is '%s'; allowed: bug\n", expected);
    std::exit(2);
}

std::string changes_of(const Plan &plan) {
    std::string text;
    for (const Change &change : plan.changes)
        text += " step " + std::to_string(change.step) + " other " + std::to_string(change.other);
    return text.empty() ? " none" : text;
}

struct Listing {
    const Scenario &scenario;
    unsigned schedules_max;
    bool complete = true;
    Explored found;
};

/* Runs the schedule of `plan`, and all schedules with up to `left` more changes after its last one. False when the last
   change names a thread that does not exist. */
bool list_all(const Plan &plan, unsigned left, Listing *listing) {
    Explored &found = listing->found;
    listing->complete = found.schedules < listing->schedules_max;
    if (!listing->complete)
        return false;
    if (!run_once(plan, listing->scenario, expects_bug(), &found)) {
        found.text = "changes of thread:" + changes_of(plan) + "\n" + found.text;
        return false;
    }
    if (shared_report()->impossible)
        return false;
    uint64_t steps = left > 0 ? shared_report()->steps : 0;
    for (uint64_t step = plan.changes.empty() ? 1 : plan.changes.back().step + 1; step <= steps; step++) {
        Plan longer = plan;
        longer.changes.push_back({step, 0});
        while (list_all(longer, left - 1, listing) && !found.failed && listing->complete)
            longer.changes.back().other++;
        if (found.failed || !listing->complete)
            break;
    }
    return true;
}

} // namespace

Explored search_one(uint64_t seed, const Scenario &scenario) {
    Explored found;
    Plan plan;
    plan.seed = seed;
    run_once(plan, scenario, expects_bug(), &found);
    return found;
}

Explored search(unsigned schedules, const Scenario &scenario) {
    Explored found;
    Plan plan;
    for (plan.seed = 1; plan.seed <= schedules; plan.seed++)
        if (!run_once(plan, scenario, expects_bug(), &found))
            break;
    return found;
}

Explored search_all(unsigned changes, unsigned schedules_max, const Scenario &scenario, bool *all) {
    Listing listing{scenario, schedules_max, true, {}};
    Plan plan;
    plan.is_listed = true;
    list_all(plan, changes, &listing);
    *all = listing.complete;
    return listing.found;
}

namespace {

std::string test_name() {
    const testing::TestInfo *test = testing::UnitTest::GetInstance()->current_test_info();
    return std::string(test->test_suite_name()) + "." + test->name();
}

void print(const Explored &found, std::chrono::steady_clock::time_point start) {
    auto time = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start);
    std::printf("%s: %u schedules, up to %llu steps, %lld ms\n", test_name().c_str(), found.schedules,
                static_cast<unsigned long long>(found.steps_most), static_cast<long long>(time.count()));
}

/* The scenario must fail, and fail the same way again with that seed. */
void expect_bug(const Explored &found, const Scenario &scenario) {
    ASSERT_TRUE(found.failed) << "the planted bug was not found in " << found.schedules << " schedules";
    std::printf("found with seed %llu: %s\n", static_cast<unsigned long long>(found.seed),
                found.text.substr(0, found.text.find('\n')).c_str());
    Explored again = search_one(found.seed, scenario);
    EXPECT_EQ(again.text, found.text) << "the same seed took other steps";
}

} // namespace

Explored explore(const char *, unsigned schedules, const Scenario &scenario) {
    auto start = std::chrono::steady_clock::now();
    uint64_t seed = number_from("HZ_MODEL_SEED");
    uint64_t wanted = number_from("HZ_MODEL_SCHEDULES");
    schedules *= expects_bug() ? bug_factor : 1;
    Explored found = seed != 0 ? search_one(seed, scenario)
                               : search(wanted != 0 ? static_cast<unsigned>(wanted) : schedules, scenario);
    print(found, start);
    if (seed != 0 || expects_bug())
        found.facts.fill(1); /* not all schedules were run */
    if (expects_bug()) {
        expect_bug(found, scenario);
        return found;
    }
    if (seed != 0 && !found.failed)
        std::printf("%s", last_steps(*shared_report()).c_str());
    EXPECT_FALSE(found.failed) << "to repeat it: HZ_MODEL_SEED=" << found.seed << " ... --gtest_filter=" << test_name()
                               << "\n"
                               << found.text;
    return found;
}

void explore_all(const char *, unsigned changes, unsigned schedules_max, const Scenario &scenario) {
    auto start = std::chrono::steady_clock::now();
    bool all;
    Explored found = search_all(changes, schedules_max, scenario, &all);
    print(found, start);
    EXPECT_TRUE(found.failed == expects_bug()) << found.text;
    EXPECT_TRUE(all || found.failed) << "more than " << schedules_max << " schedules";
}

namespace {

/* Addresses influence a run, for example which block of a page is first. So every run gets the same ones, where the
   system allows that. */
[[maybe_unused]] const bool addresses_fixed = [] {
    int now = personality(0xffffffff);
    if (now != -1 && (now & ADDR_NO_RANDOMIZE) == 0 &&
        personality(static_cast<unsigned long>(now) | ADDR_NO_RANDOMIZE) != -1) {
        std::vector<char> words;
        if (FILE *file = std::fopen("/proc/self/cmdline", "r")) {
            for (int c; (c = std::fgetc(file)) != EOF;)
                words.push_back(static_cast<char>(c));
            std::fclose(file);
        }
        std::vector<char *> arguments;
        for (size_t at = 0; at < words.size(); at += std::strlen(&words[at]) + 1)
            arguments.push_back(&words[at]);
        arguments.push_back(nullptr);
        execv("/proc/self/exe", arguments.data());
    }
    return true;
}();

} // namespace

} // namespace model
