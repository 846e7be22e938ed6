/* Sampled events: hz_sampling_start, hz_sampling_notify. Sampling cannot be ended, so each test runs in a child. */
#include "api.h"
#include "stress/children.h"
#include "support.h"

#include <atomic>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <future>
#include <gtest/gtest.h>
#include <map>
#include <mutex>
#include <sys/syscall.h>
#include <thread>

namespace {

using namespace support;

/* Ends the child with the number of the line that fails. */
#define REQUIRE(condition)                                                                                             \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                            \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)

class Sampling : public testing::Test {
  protected:
    void SetUp() override {
        if (t_table.sampling_start_fn == nullptr)
            GTEST_SKIP() << "hz_sampling_start does not exist here";
        if (t_config_has("fences=1"))
            GTEST_SKIP() << "the guard build samples nothing";
    }
};

/* What a program would keep: the sampled blocks that are live. It allocates, by the heap that it watches. */
struct Table {
    struct Entry {
        size_t bytes;
        unsigned thread;
        const void *const *stack;
    };
    std::mutex mutex;
    std::map<const void *, Entry> live;
    double allocated_bytes = 0;
    std::atomic<size_t> events{0};
    std::atomic<bool> is_wrong{false};
};

unsigned thread_number() {
    return static_cast<unsigned>(syscall(SYS_gettid));
}

void note(const struct hz_sampling_event *event, void *context) {
    auto *table = static_cast<Table *>(context);
    std::lock_guard<std::mutex> guard(table->mutex);
    table->events++;
    bool is_known = table->live.count(event->block) == 1;
    if (event->kind == HZ_SAMPLING_ALLOC) {
        table->is_wrong =
            table->is_wrong || is_known || event->stands_for < 1 || event->thread_id != event->allocated_by;
        table->live[event->block] = {event->bytes, event->thread_id, event->stack};
        table->allocated_bytes += static_cast<double>(event->bytes) * event->stands_for;
    } else {
        const Table::Entry &entry = table->live[event->block];
        table->is_wrong = table->is_wrong || !is_known || entry.bytes != event->bytes ||
                          entry.thread != event->allocated_by || entry.stack != event->stack;
        table->live.erase(event->block);
    }
    errno = ERANGE; /* which the program must not see */
}

/* In a child, from whose heap the test framework has taken its memory before. */
template <typename Body> void sampled(size_t rate, Body body) {
    children::expect_good_end(children::start([&] {
        REQUIRE(t_table.sampling_start_fn(rate) == 0);
        body();
        return 0;
    }));
}

void listen(Table &table) {
    REQUIRE(t_table.sampling_notify_fn(note, &table) == 0);
}

TEST_F(Sampling, MistakesAreRefused) {
    children::expect_good_end(children::start([] {
        errno = 0;
        REQUIRE(t_table.sampling_notify_fn(note, nullptr) == -1 && errno == ENOTSUP);
        for (size_t rate : {size_t{0}, size_t{1} << 31}) {
            errno = 0;
            REQUIRE(t_table.sampling_start_fn(rate) == -1 && errno == EINVAL);
        }
        std::thread([] {
            errno = 0;
            REQUIRE(t_table.sampling_start_fn(1000) == -1 && errno == EBUSY);
        }).join();
        REQUIRE(t_table.sampling_start_fn(1000) == 0);
        errno = 0;
        REQUIRE(t_table.sampling_start_fn(1000) == -1 && errno == EALREADY);
        REQUIRE(t_table.sampling_notify_fn(nullptr, nullptr) == 0);
        return 0;
    }));
}

TEST_F(Sampling, NotBesideThreadsThatHaveAllocated) {
    children::expect_good_end(children::start([] {
        std::promise<void> has_allocated;
        std::promise<void> may_end;
        std::thread other([&] {
            t_free(t_malloc(100));
            has_allocated.set_value();
            may_end.get_future().wait();
        });
        has_allocated.get_future().wait();
        errno = 0;
        REQUIRE(t_table.sampling_start_fn(1000) == -1 && errno == EBUSY);
        may_end.set_value();
        other.join();
        return 0;
    }));
}

TEST_F(Sampling, ATableOfLiveBlocksIsRight) {
    sampled(4 * KiB, [] {
        Table table;
        std::map<void *, size_t> mine;
        listen(table);
        double exact = 0;
        uint64_t seed = 7;
        for (int turn = 0; turn < 30000; turn++) {
            seed = mix(seed);
            size_t size = seed % 100 == 0 ? 70 * KiB + seed % (300 * KiB) : 1 + seed % 3000;
            errno = EILSEQ;
            void *block = seed % 3 == 0   ? t_aligned_alloc(64, size)
                          : seed % 3 == 1 ? t_calloc(1, size)
                                          : t_malloc(size);
            REQUIRE(block != nullptr && errno == EILSEQ);
            exact += static_cast<double>(size);
            if (seed % 5 != 0) {
                t_free(block);
                REQUIRE(errno == EILSEQ);
            } else {
                mine[block] = size;
            }
        }
        REQUIRE(!table.is_wrong && table.events > 1000);
        REQUIRE(std::abs(table.allocated_bytes / exact - 1) < 0.1);
        size_t found = 0;
        for (const auto &[block, entry] : table.live) {
            auto at = mine.find(const_cast<void *>(block));
            if (at != mine.end()) { /* else the framework's, which the preloaded library samples too */
                REQUIRE(at->second == entry.bytes);
                found++;
            }
        }
        REQUIRE(found > 200 && (t_system || found == table.live.size()));
        for (const auto &[block, size] : mine)
            t_free(block);
        for (const auto &[block, size] : mine)
            REQUIRE(table.live.count(block) == 0);
        REQUIRE(!table.is_wrong);
        REQUIRE(t_table.sampling_notify_fn(nullptr, nullptr) == 0);
    });
}

TEST_F(Sampling, AFreeNamesTheThreadThatAllocated) {
    struct Seen {
        const void *block;
        std::atomic<unsigned> allocator{0}, freer{0};
    };
    sampled(1, [] {
        Seen seen;
        void *block = nullptr;
        seen.block = nullptr;
        unsigned by = 0;
        REQUIRE(t_table.sampling_notify_fn(
                    [](const struct hz_sampling_event *event, void *context) {
                        auto *mine = static_cast<Seen *>(context);
                        if (event->bytes == 1234 && event->kind == HZ_SAMPLING_ALLOC)
                            mine->block = event->block;
                        if (event->block == mine->block && event->kind == HZ_SAMPLING_FREE) {
                            mine->allocator = event->allocated_by;
                            mine->freer = event->thread_id;
                        }
                    },
                    &seen) == 0);
        std::thread([&] {
            by = thread_number();
            block = t_malloc(1234);
        }).join();
        REQUIRE(block != nullptr && seen.block == block);
        unsigned freer = 0;
        std::thread([&] {
            freer = thread_number();
            t_free(block);
        }).join();
        REQUIRE(seen.allocator == by && seen.freer == freer);
        REQUIRE(t_table.sampling_notify_fn(nullptr, nullptr) == 0);
    });
}

TEST_F(Sampling, ResizingIsAFreeAndAnAllocation) {
    sampled(1, [] {
        Table table;
        listen(table);
        void *block = t_malloc(100 * KiB);
        REQUIRE(table.live.at(block).bytes == 100 * KiB);
        for (size_t size : {200 * KiB, 3 * MiB, 90 * KiB, size_t{5000}, 30 * MiB}) {
            block = t_realloc(block, size);
            REQUIRE(table.live.at(block).bytes == size && !table.is_wrong);
        }
        REQUIRE(t_realloc(block, PTRDIFF_MAX) == nullptr);
        REQUIRE(table.live.at(block).bytes == 30 * MiB && !table.is_wrong);
        t_free(block);
        REQUIRE(table.live.count(block) == 0);
        REQUIRE(t_table.sampling_notify_fn(nullptr, nullptr) == 0);
    });
}

TEST_F(Sampling, ARegistrationHearsOfItsOwnBlocks) {
    sampled(1, [] {
        Table first;
        Table second;
        void *before = t_malloc(100);
        listen(first);
        void *block = t_malloc(200);
        REQUIRE(first.live.count(block) == 1);
        listen(second);
        size_t events = first.events;
        t_free(block);
        t_free(before);
        REQUIRE(second.live.count(block) == 0 && !second.is_wrong);
        block = t_malloc(300);
        REQUIRE(second.live.count(block) == 1);
        REQUIRE(t_table.sampling_notify_fn(nullptr, nullptr) == 0);
        size_t of_second = second.events;
        t_free(block);
        REQUIRE(first.events == events && second.events == of_second && !second.is_wrong);
    });
}

TEST_F(Sampling, AChildOfAForkGoesOn) {
    sampled(1, [] {
        Table table;
        listen(table);
        void *block = t_malloc(100);
        pid_t child = children::start([&] {
            REQUIRE(table.live.count(block) == 1);
            t_free(block);
            REQUIRE(table.live.count(block) == 0 && !table.is_wrong);
            void *other = t_malloc(200);
            REQUIRE(table.live.count(other) == 1);
            return 0;
        });
        REQUIRE(children::code_of(child) == 0);
        t_free(block);
        REQUIRE(table.live.count(block) == 0);
        REQUIRE(t_table.sampling_notify_fn(nullptr, nullptr) == 0);
    });
}

TEST_F(Sampling, ACallbackMayFork) {
    struct Forked {
        int calls = 0, code = -1;
    };
    sampled(1, [] {
        Forked forked;
        REQUIRE(t_table.sampling_notify_fn(
                    [](const struct hz_sampling_event *event, void *context) {
                        auto *mine = static_cast<Forked *>(context);
                        if (event->bytes != 777 || event->kind != HZ_SAMPLING_ALLOC)
                            return;
                        mine->calls++;
                        mine->code = children::code_of(children::start([] {
                            std::thread([] { t_free(t_malloc(50)); }).join();
                            return 0;
                        }));
                        pid_t child = fork(); /* and the child returns from the callback */
                        if (child == 0)
                            mine->code = -2;
                        else
                            mine->code |= children::code_of(child);
                    },
                    &forked) == 0);
        void *block = t_malloc(777);
        REQUIRE(forked.calls == 1 && block != nullptr);
        if (forked.code == -2) {
            t_free(block);
            _exit(0);
        }
        REQUIRE(forked.code == 0);
        t_free(block);
        REQUIRE(t_table.sampling_notify_fn(nullptr, nullptr) == 0);
    });
}

/* An address that one thread frees is soon another's: the table would have it twice if its free were told late. */
TEST_F(Sampling, ATableIsRightWhileThreadsPassBlocks) {
    constexpr int turns = tsan ? 3000 : 30000;
    sampled(16, [] {
        static Table table;
        static std::atomic<void *> slots[8];
        listen(table);
        auto work = [](uint64_t seed) {
            for (int turn = 0; turn < turns; turn++) {
                seed = mix(seed);
                t_free(slots[seed >> 61].exchange(t_malloc(turn % 16 == 0 ? 70 * KiB : 1000)));
            }
        };
        std::thread one(work, 1);
        std::thread two(work, 2);
        std::thread three(work, 3);
        one.join();
        two.join();
        three.join();
        REQUIRE(!table.is_wrong && table.events > 3 * turns);
        for (std::atomic<void *> &slot : slots)
            t_free(slot.exchange(nullptr));
        REQUIRE(!table.is_wrong);
        REQUIRE(t_table.sampling_notify_fn(nullptr, nullptr) == 0);
    });
}

/* Threads allocate for one another while callbacks come and go. */
TEST_F(Sampling, CallbacksComeAndGoWhileThreadsAllocate) {
    constexpr int turns = tsan ? 3000 : 20000;
    sampled(512, [] {
        static std::atomic<bool> is_over{false};
        static std::atomic<size_t> calls{0};
        static std::atomic<void *> slots[64];
        auto work = [](uint64_t seed) {
            for (int turn = 0; turn < turns; turn++) {
                seed = mix(seed);
                void *block = t_malloc(1 + seed % (turn % 50 == 0 ? 200000 : 2000));
                t_free(slots[seed >> 58].exchange(block));
            }
        };
        std::thread registrar([] {
            hz_sampling_callback *count = [](const struct hz_sampling_event *, void *context) {
                ++*static_cast<std::atomic<size_t> *>(context);
                t_free(t_malloc(40));
            };
            while (!is_over) {
                REQUIRE(t_table.sampling_notify_fn(count, &calls) == 0);
                std::this_thread::yield();
                REQUIRE(t_table.sampling_notify_fn(nullptr, nullptr) == 0);
            }
            REQUIRE(t_table.sampling_notify_fn(count, &calls) == 0);
        });
        std::thread one(work, 1);
        std::thread two(work, 2);
        one.join();
        two.join();
        is_over = true;
        registrar.join();
        for (std::atomic<void *> &slot : slots)
            t_free(slot.exchange(nullptr));
        size_t before = calls;
        for (int i = 0; i < 100; i++)
            t_free(t_malloc(2000));
        REQUIRE(calls > before);
    });
}

/* A signal handler allocates; POSIX does not allow that, and programs do it. */
TEST_F(Sampling, ASignalHandlerMayInterruptTheCallback) {
    sampled(1, [] {
        static Table table;
        static int rounds;
        signal(SIGUSR1, [](int) { t_free(t_malloc(64)); });
        REQUIRE(t_table.sampling_notify_fn(
                    [](const struct hz_sampling_event *event, void *) {
                        if (event->bytes == 4321) {
                            rounds++;
                            raise(SIGUSR1);
                        }
                    },
                    nullptr) == 0);
        t_free(t_malloc(4321));
        REQUIRE(rounds == 2);
        REQUIRE(t_table.sampling_notify_fn(nullptr, nullptr) == 0);
    });
}

} // namespace
