/* The keeper from inside: when it starts, what it gives back, and how it ends. Each test has a process of its own,
   since some ends are for good. */
#define HZ_TESTS_WITH_KEEPER 1
#include "stress/children.h"
#include "unit/folder.h"
#include "unit/heap/fixture.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace {

using children::require;

/* Runs the body in a child that has no keeper yet. */
template <typename Body> void in_child(Body body) {
    children::expect_good_end(children::start([&] {
        hz_hooks_enter(); /* mends the child */
        hz_hooks_leave();
        unit::self();
        body();
        return 0;
    }));
}

template <typename Done> bool is_soon(Done done) {
    auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!done() && std::chrono::steady_clock::now() < deadline)
        std::this_thread::yield();
    return done();
}

/* Threads with a keeper's name. */
size_t keepers() {
    size_t found = 0;
    for (const auto &task : std::filesystem::directory_iterator("/proc/self/task")) {
        std::string name;
        std::getline(std::ifstream(task.path() / "comm"), name);
        found += name == "hakozuna";
    }
    return found;
}

std::string state() {
    return hz_keeper_describe().state;
}

void start() {
    hz_keeper_start();
    require(hz_keeper_runs(), "the keeper starts");
}

TEST(Keeper, StartsOnce) {
    in_child([] {
        require(!hz_keeper_runs() && hz_keeper_is_possible(), "there is none yet");
        require(state() == "none: the program has started no second thread", "none is needed");
        start();
        require(is_soon([] { return keepers() == 1; }), "a thread runs");
        start();
        require(keepers() == 1, "a second call starts none");
        require(hz_keeper_describe().runs && state().rfind("runs", 0) == 0, "it says so");
    });
}

TEST(Keeper, GivesBackWhatRests) {
    if (HZ_DEPOT_BYTES == 0)
        GTEST_SKIP() << "this lane has no depot";
    in_child([] {
        constexpr unsigned size_class = 2;
        unit::rest(unit::self(), size_class, 6);
        start();
        require(is_soon([] { return hz_depot_blocks(size_class) == 0; }), "the depot ages");
        unit::rest(unit::self(), size_class, 6);
        require(is_soon([] { return hz_depot_blocks(size_class) == 0; }), "and again");
    });
}

TEST(Keeper, MakesWayAndComesBack) {
    in_child([] {
        require(!hz_keeper_suspend(), "there is none");
        start();
        require(hz_keeper_suspend(), "it ends");
        require(!hz_keeper_runs() && is_soon([] { return keepers() == 0; }), "it has ended");
        hz_keeper_resume(true);
        require(hz_keeper_runs(), "another one starts at once");
        require(hz_keeper_suspend(), "it ends, too");
        hz_keeper_resume(false);
        require(state() == "none: it gave way to the program", "it says why");
        hz_keeper_start();
        require(!hz_keeper_runs() && !hz_load_rlx(&hz_keeper_is_wanted), "it is too early");
        hz_keeper_look_again(hz_os_now_ms());
        require(!hz_load_rlx(&hz_keeper_is_wanted), "still");
        hz_keeper_look_again(hz_os_now_ms() + 1000);
        require(hz_load_rlx(&hz_keeper_is_wanted), "after a second it is time");
    });
}

TEST(Keeper, StopsUntilItIsAllowed) {
    in_child([] {
        require(hz_keeper_allow(), "it was not stopped");
        start();
        require(hz_keeper_stop() && is_soon([] { return keepers() == 0; }), "it has ended");
        require(hz_keeper_stop(), "a second time");
        hz_keeper_start();
        require(!hz_keeper_runs() && !hz_keeper_is_possible(), "none starts");
        require(state() == "none: hz_background_set has ended it", "it says why");
        children::expect_good_end(children::start([] {
            require(!hz_keeper_is_possible(), "a child inherits that");
            return 0;
        }));
        require(hz_keeper_allow() && !hz_keeper_runs(), "it may start");
        start();
        require(hz_keeper_stop(), "it ends again");
        hz_keeper_confine();
        require(!hz_keeper_allow() && !hz_keeper_is_possible(), "a sandbox is for good");
        require(state() == "none: the program has restricted its system calls", "it says why");
    });
}

TEST(Keeper, IsStoppedAndAllowedByManyAtOnce) {
    in_child([] {
        constexpr int rounds = 300;
        std::vector<std::thread> threads;
        for (bool stops : {true, false, true, false})
            threads.emplace_back([stops] {
                for (int round = 0; round < rounds; round++) {
                    require(stops ? hz_keeper_stop() : hz_keeper_allow(), "neither is ever refused");
                    hz_keeper_start();
                }
            });
        for (std::thread &thread : threads)
            thread.join();
        require(hz_keeper_stop() && is_soon([] { return keepers() == 0; }), "it has ended");
        hz_keeper_start();
        require(!hz_keeper_runs() && keepers() == 0, "none starts");
        require(hz_keeper_allow(), "it may start");
        start();
    });
}

class KeeperAndTheGroup : public unit::Folder {};

/* Later nobody can look at what is beside the heap, and it may be gone. */
TEST_F(KeeperAndTheGroup, ForgetsInASandboxWhatIsBesideTheHeap) {
    constexpr size_t max = 800 * support::MiB;
    write("groups", "0::/a\n");
    write("a/memory.max", std::to_string(max) + "\n");
    write("statm", "99999 " + std::to_string(300 * support::MiB / hz_os_page_bytes()) + " 0 1 0 1 0\n");
    in_child([this] {
        hz_heap_limit_default((folder_ / "groups").c_str(), folder_.c_str(), (folder_ / "statm").c_str());
        require(hz_budget_soft_limit() < 500 * support::MiB, "it counts");
        hz_keeper_confine();
        require(hz_budget_soft_limit() == 700 * support::MiB, "it no longer counts");
    });
}

TEST(Keeper, EndsForGoodInASandbox) {
    in_child([] {
        start();
        hz_keeper_confine();
        require(is_soon([] { return keepers() == 0; }), "it has ended");
        hz_keeper_start();
        require(!hz_keeper_runs() && !hz_keeper_is_possible() && !hz_keeper_may_relieve(), "none starts");
        require(state() == "none: the program has restricted its system calls", "it says why");
    });
}

TEST(Keeper, MayBeForbidden) {
    in_child([] {
        hz_keeper_forbid();
        hz_keeper_start();
        require(!hz_keeper_runs() && !hz_keeper_is_possible(), "none starts");
        require(state() == "none: HAKOZUNA_BACKGROUND=0", "it says why");
        require(children::code_of(children::start([] {
                    hz_hooks_enter();
                    hz_hooks_leave();
                    return hz_keeper_is_possible() ? 1 : 0;
                })) == 0,
                "nor in a child");
    });
}

TEST(Keeper, AForksChildHasNoneUntilItStartsOne) {
    if (support::tsan)
        GTEST_SKIP() << "ThreadSanitizer allows no thread in the child of a process with threads";
    in_child([] {
        start();
        require(children::code_of(children::start([] {
                    hz_hooks_enter();
                    hz_hooks_leave();
                    require(!hz_keeper_runs() && hz_keeper_is_possible(), "the parent's stayed behind");
                    start();
                    require(is_soon([] { return keepers() == 1; }), "the child has its own");
                    return 0;
                })) == 0,
                "the child is well");
    });
}

} // namespace
