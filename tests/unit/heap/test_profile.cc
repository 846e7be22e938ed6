/*
 * The heap profile: which allocations are sampled, what its sites say, and what happens to sampled blocks.
 *
 * What a profile says varies by chance. A block of w bytes is sampled with probability p = 1 - exp(-w/rate), so of n
 * such blocks n p are, with a standard deviation of sqrt(n p (1 - p)). The tests allow six of them.
 */
#include "stress/children.h"
#include "unit/heap/fixture.h"
#include "unit/heap/worker.h"

#include <cmath>
#include <map>
#include <sys/mman.h>
#include <thread>

namespace {

using children::require;
using support::KiB;
using support::MiB;
using unit::Blocks;

/* Runs the body in a child whose allocations are sampled. */
template <typename Body> void profiled(uint64_t rate, Body body) {
    children::expect_good_end(children::start([&] {
        require(hz_sample_start_profile(rate), "there is memory for the profile");
        body();
        return 0;
    }));
}

/* Begins a fixed sequence of choices in the calling thread. */
void seed(uint64_t number) {
    struct hz_thread_block *self = unit::self();
    self->sampling.random = number;
    self->sampling.countdown = hz_random_gap(&self->sampling.random, hz_profile_rate());
}

struct Sums {
    double allocated_blocks = 0, allocated_bytes = 0, freed_blocks = 0, freed_bytes = 0;
};

/* What was sampled, by weight, as it is counted. */
std::map<size_t, Sums> counted() {
    std::map<size_t, Sums> found;
    for (uint32_t number = 1; number <= hz_profile_site_count(); number++) {
        const struct hz_profile_site *site = hz_profile_site_at(number);
        Sums &sums = found[site->weight];
        sums.allocated_blocks += static_cast<double>(hz_load_rlx(&site->allocated_blocks));
        sums.allocated_bytes += static_cast<double>(hz_load_rlx(&site->allocated_bytes));
        sums.freed_blocks += static_cast<double>(hz_load_rlx(&site->freed_blocks));
        sums.freed_bytes += static_cast<double>(hz_load_rlx(&site->freed_bytes));
    }
    return found;
}

/* The same as estimates of what the program has done. */
Sums estimated() {
    Sums sum;
    for (const auto &[weight, sums] : counted()) {
        double scale = 1 / hz_random_chance(weight, hz_profile_rate());
        sum.allocated_blocks += scale * sums.allocated_blocks;
        sum.allocated_bytes += scale * sums.allocated_bytes;
        sum.freed_blocks += scale * sums.freed_blocks;
        sum.freed_bytes += scale * sums.freed_bytes;
    }
    return sum;
}

double live_of(size_t weight) {
    Sums sums = counted()[weight];
    return sums.allocated_blocks - sums.freed_blocks;
}

/* ---- the choice ---- */

TEST(Profile, EachSizeIsChosenByItsBytes) {
    constexpr uint64_t rate = 8 * KiB;
    profiled(rate, [] {
        for (size_t size : {size_t{0}, size_t{16}, size_t{100}, 2 * KiB, 2 * KiB + 1, size_t{5000}, 16 * KiB,
                            16 * KiB + 1, 40 * KiB, 64 * KiB, 100 * KiB, 3 * MiB}) {
            size_t weight = size > 64 * KiB ? hz_profile_weight(size) : hz_class_bytes(hz_class_of(size));
            double chance = hz_random_chance(weight, rate);
            auto total = static_cast<size_t>(std::min(size > MiB ? 500.0 : 20000.0, 4000 / chance));
            double before = counted()[weight].allocated_blocks;
            for (size_t i = 0; i < total; i++) {
                void *block = t_malloc(size);
                t_free(block);
            }
            double got = counted()[weight].allocated_blocks - before;
            double expected = static_cast<double>(total) * chance;
            require(std::abs(got - expected) <= 6 * std::sqrt(expected * (1 - chance)) + 1, "by its bytes", size);
        }
    });
}

/* A mix, at `rate`, until `bytes` bytes are allocated. Returns the estimate's error as a part of the exact sum. */
double error_of_mix(size_t bytes, uint64_t number) {
    seed(number);
    support::Random random(number);
    Sums before = estimated();
    Blocks blocks(200);
    double exact = 0;
    for (size_t turn = 0; exact < static_cast<double>(bytes); turn++) {
        void *&slot = blocks[turn % blocks.size()];
        size_t kind = random.below(100);
        size_t size = kind < 60   ? 1 + random.below(300)
                      : kind < 97 ? 1 + random.below(5000)
                                  : 1 + random.below(200 * KiB);
        t_free(slot);
        slot = kind % 3 == 0 ? t_calloc(1, size) : kind % 3 == 1 ? t_aligned_alloc(64, size) : t_malloc(size);
        exact += static_cast<double>(size);
    }
    for (void *block : blocks)
        t_free(block);
    return (estimated().allocated_bytes - before.allocated_bytes) / exact - 1;
}

TEST(Profile, OneGibIsWithinThreePercent) {
    profiled(64 * KiB, [] {
        require(std::abs(error_of_mix(1024 * MiB, 1)) < 0.03, "within 3 %");
        Sums sums = estimated();
        require(sums.allocated_bytes == sums.freed_bytes, "every sampled block was found when it was freed");
    });
}

/* 128 MiB have 256 samples at this rate, so one run's standard deviation is 6.3 %. That of the mean is smaller. */
TEST(Profile, IsUnbiasedAtTheDefaultRate) {
    profiled(512 * KiB, [] {
        constexpr int runs = 12;
        double sum = 0;
        for (uint64_t number = 1; number <= runs; number++)
            sum += error_of_mix(128 * MiB, number);
        require(std::abs(sum / runs) < 6 * 0.063 / std::sqrt(runs), "the mean error");
    });
}

TEST(Profile, ThreadsAreSampledFromTheirFirstBlock) {
    constexpr size_t threads = 300;
    profiled(16 * KiB, [] {
        size_t weight = hz_class_bytes(hz_class_of(1000));
        for (size_t i = 0; i < threads; i++)
            std::thread([] {
                for (int turn = 0; turn < 20; turn++)
                    t_free(t_malloc(1000));
            }).join();
        double chance = hz_random_chance(weight, 16 * KiB);
        double expected = threads * 20 * chance;
        require(std::abs(counted()[weight].allocated_blocks - expected) < 6 * std::sqrt(expected), "of short threads");
    });
}

/* ---- sampled blocks ---- */

TEST(Profile, BlocksAreBlocksLikeOthers) {
    profiled(1, [] {
        for (size_t size : {size_t{1}, size_t{24}, 2 * KiB, size_t{5000}, 40 * KiB, 64 * KiB}) {
            auto *block = static_cast<char *>(t_malloc(size));
            require(hz_profile_has(block), "sampled", size);
            require(t_usable_size(block) == hz_query_bytes_for(size), "its usable size", size);
            require(hz_zone_of(block) == nullptr, "of the common heap", size);
            memset(block, 0x5a, t_usable_size(block));
            auto *zeroed = static_cast<char *>(t_calloc(1, size));
            for (size_t i = 0; i < size; i++)
                require(zeroed[i] == 0, "calloc gives zeros", size);
            block = static_cast<char *>(t_realloc(block, 3 * size + 100));
            for (size_t i = 0; i < size; i++)
                require(block[i] == 0x5a, "realloc keeps the bytes", size);
            t_free(block);
            t_free(zeroed);
        }
        for (size_t alignment = 16; alignment <= 1024 * KiB; alignment *= 2) {
            void *block = t_aligned_alloc(alignment, 100);
            require(reinterpret_cast<uintptr_t>(block) % alignment == 0, "aligned", alignment);
            t_free(block);
        }
        Sums sums = estimated();
        require(sums.allocated_blocks == sums.freed_blocks, "nothing is live");
        struct hz_profile_figures figures = {};
        hz_profile_figures_get(&figures);
        require(figures.live_blocks == 0 && figures.live_bytes == 0 && figures.lost_blocks == 0, "nor in the figures");
    });
}

TEST(Profile, NoBlockIsGivenTwice) {
    profiled(1, [] {
        Blocks blocks;
        for (int i = 0; i < 20000; i++) {
            auto *block = static_cast<int *>(t_malloc(static_cast<size_t>(i % 300) + 4));
            *block = i;
            blocks.push_back(block);
            if (i % 3 == 2) {
                t_free(blocks[static_cast<size_t>(i) / 2]);
                blocks[static_cast<size_t>(i) / 2] = nullptr;
            }
        }
        for (size_t i = 0; i < blocks.size(); i++)
            require(blocks[i] == nullptr || *static_cast<int *>(blocks[i]) == static_cast<int>(i), "its own bytes", i);
    });
}

TEST(Profile, LargeBlocksThatAreResized) {
    profiled(1, [] {
        size_t weight = hz_profile_weight(20 * MiB);
        auto *block = static_cast<char *>(t_malloc(5 * MiB));
        block[0] = 7;
        block = static_cast<char *>(t_realloc(block, 20 * MiB));
        require(block[0] == 7, "the bytes");
        require(live_of(hz_profile_weight(5 * MiB)) == 0, "the old block is gone");
        require(live_of(weight) == 1, "the new one is live");
        t_free(block);
        require(live_of(weight) == 0, "and freed");
    });
}

/* So many that some share a bucket of the table. */
TEST(Profile, ManyLargeBlocks) {
    profiled(1, [] {
        size_t weight = hz_profile_weight(65 * KiB);
        support::Random random(1);
        Blocks blocks(2000);
        for (int round = 0; round < 3; round++) {
            for (void *&block : blocks)
                block = block != nullptr ? block : t_malloc(65 * KiB);
            require(live_of(weight) == static_cast<double>(blocks.size()), "all are live");
            double live = static_cast<double>(blocks.size());
            for (void *&block : blocks) {
                if (random.below(3) == 0)
                    continue;
                t_free(block);
                block = nullptr;
                live--;
            }
            require(live_of(weight) == live, "what was freed is not", static_cast<size_t>(round));
        }
        for (void *block : blocks)
            t_free(block);
        require(live_of(weight) == 0, "nothing is live");
    });
}

TEST(Profile, BlocksPassBetweenThreads) {
    profiled(2 * KiB, [] {
        Blocks blocks(20000);
        std::thread([&] {
            for (size_t i = 0; i < blocks.size(); i++)
                blocks[i] = t_malloc(16 + i % 900);
        }).join();
        require(estimated().allocated_blocks > 1000, "some are sampled");
        std::thread([&] {
            for (void *block : blocks)
                t_free(block);
        }).join();
        Sums sums = estimated();
        require(sums.allocated_blocks == sums.freed_blocks, "all are found");
    });
}

TEST(Profile, ThreadsAtOnce) {
    profiled(512, [] {
        std::vector<std::thread> threads;
        for (size_t number = 0; number < 4; number++)
            threads.emplace_back([=] {
                Blocks blocks(100);
                for (size_t i = 0; i < 40000; i++) {
                    void *&slot = blocks[i % blocks.size()];
                    t_free(slot);
                    slot = t_malloc(i % 700 == 0 ? 100 * KiB : 16 + i * (number + 1) % 3000);
                }
                for (void *block : blocks)
                    t_free(block);
            });
        for (std::thread &thread : threads)
            thread.join();
        for (const auto &[weight, sums] : counted())
            require(sums.allocated_blocks == sums.freed_blocks && sums.allocated_bytes == sums.freed_bytes, "all found",
                    weight);
    });
}

TEST(Profile, Misuse) {
    auto ends_with = [](const char *text, auto misuse) {
        EXPECT_DEATH(
            {
                if (!hz_sample_start_profile(1))
                    _exit(3);
                misuse(static_cast<char *>(t_malloc(100)));
            },
            text);
    };
    ends_with(HZ_TEXT_DOUBLE_FREE, [](char *block) {
        t_free(block);
        t_free(block);
    });
    ends_with(HZ_TEXT_INTERIOR, [](char *block) { t_free(block + 16); });
    ends_with(HZ_TEXT_FOREIGN, [](char *block) { t_free(block + MiB); });
}

/* ---- the flow between threads ---- */

struct Flow {
    double samples = 0, blocks = 0, bytes = 0;
};

using Pairs = std::map<std::pair<uint32_t, uint32_t>, Flow>; /* thread that allocated, thread that freed */

Pairs flow() {
    Pairs found;
    for (uint32_t number = 1; number <= hz_profile_pair_count(); number++) {
        const struct hz_profile_pair *pair = hz_profile_pair_at(number);
        if (hz_load_rlx(&pair->samples) == 0)
            continue;
        Flow &sums = found[{pair->from, pair->to}];
        sums.samples += static_cast<double>(hz_load_rlx(&pair->samples));
        sums.blocks += std::ldexp(static_cast<double>(hz_load_rlx(&pair->blocks)), -HZ_PROFILE_BLOCK_LOG2);
        sums.bytes += static_cast<double>(hz_load_rlx(&pair->bytes));
    }
    return found;
}

double passed_blocks() {
    double sum = 0;
    for (uint32_t number = 1; number <= hz_profile_site_count(); number++)
        sum += static_cast<double>(hz_load_rlx(&hz_profile_site_at(number)->passed_blocks));
    return sum;
}

bool is_near(double value, double expected) {
    return std::abs(value - expected) <= 1e-4 * expected; /* the pairs round each block */
}

/* Blocks of many sizes by one thread, the even ones freed by a second, the odd ones by a third. */
TEST(Profile, PairsOfAProducerAndTwoConsumers) {
    profiled(4 * KiB, [] {
        uint32_t producer = 0;
        uint32_t consumers[2] = {0, 0};
        Blocks blocks(60000);
        auto size_of = [](size_t i) { return i % 1001 == 7 ? 100 * KiB : 16 + i * 7 % 900; };
        double exact = 0;
        std::thread([&] {
            producer = hz_os_thread_id();
            for (size_t i = 0; i < blocks.size(); i++)
                blocks[i] = t_malloc(size_of(i));
        }).join();
        for (size_t i = 0; i < blocks.size(); i++)
            exact += static_cast<double>(size_of(i));
        require(passed_blocks() == 0, "nothing is freed yet");
        std::atomic<int> begun{0};
        std::vector<std::thread> threads;
        for (size_t parity = 0; parity < 2; parity++)
            threads.emplace_back([&, parity] {
                consumers[parity] = hz_os_thread_id();
                for (begun++; begun < 2;) /* at once, so that their ids differ */
                    std::this_thread::yield();
                for (size_t i = parity; i < blocks.size(); i += 2)
                    t_free(blocks[i]);
            });
        for (std::thread &thread : threads)
            thread.join();
        Pairs pairs = flow();
        Flow made = pairs[{producer, HZ_PROFILE_NOBODY}];
        Flow even = pairs[{producer, consumers[0]}];
        Flow odd = pairs[{producer, consumers[1]}];
        require((pairs.count({producer, producer}) == 0), "the producer frees nothing");
        require(made.samples == even.samples + odd.samples, "all sampled blocks are in one of two pairs");
        require(made.blocks == even.blocks + odd.blocks && made.bytes == even.bytes + odd.bytes,
                "exactly as allocated");
        Sums sums = estimated();
        require(is_near(made.bytes, sums.allocated_bytes) && is_near(made.blocks, sums.allocated_blocks),
                "as the sites");
        double all = 0;
        for (const auto &[weight, each] : counted())
            all += each.freed_blocks;
        require(passed_blocks() == all, "and the sites say that all of it crosses");
        require(std::abs(made.bytes / exact - 1) < 6 / std::sqrt(made.samples), "near the exact bytes");
        require(std::abs(even.bytes / odd.bytes - 1) < 12 / std::sqrt(even.samples), "half of it for each");
    });
}

TEST(Profile, OneThreadAloneCrossesNothing) {
    profiled(512, [] {
        (void)error_of_mix(32 * MiB, 5);
        uint32_t self = hz_os_thread_id();
        Pairs pairs = flow();
        require(pairs.size() == 2, "two pairs", pairs.size());
        require((is_near(pairs[{self, self}].bytes, estimated().freed_bytes)), "what it has freed");
        require((pairs[{self, self}].samples == pairs[{self, HZ_PROFILE_NOBODY}].samples), "is all that it allocated");
        require(passed_blocks() == 0, "of no site");
    });
}

/* With a fork's child, its thread goes on under the number that it had. */
TEST(Profile, PairsInAForksChild) {
    profiled(1, [] {
        void *mine = t_malloc(100);
        void *others = nullptr;
        std::thread([&] { others = t_malloc(100); }).join();
        pid_t child = children::start([&] {
            t_free(mine);
            require(passed_blocks() == 0, "the thread that forked has allocated it");
            t_free(others);
            require(passed_blocks() == 1, "a vanished thread has allocated it");
            std::thread([] { t_free(t_malloc(200)); }).join();
            require(passed_blocks() == 1, "a thread of the child");
            return 0;
        });
        require(children::code_of(child) == 0, "the child");
        require(passed_blocks() == 0, "the parent has freed nothing");
        std::thread([&] { t_free(mine); }).join();
        t_free(others);
        require(passed_blocks() == 2, "both, by another");
    });
}

/* A resize that fails leaves the block with the thread that allocated it. */
TEST(Profile, PairsOfResizedLargeBlocks) {
    profiled(1, [] {
        auto *block = static_cast<char *>(t_malloc(5 * MiB));
        std::thread([&] {
            require(t_realloc(block, SIZE_MAX / 4) == nullptr, "too large");
            require(passed_blocks() == 0, "so it was not freed");
            block = static_cast<char *>(t_realloc(block, 20 * MiB));
            require(block != nullptr && passed_blocks() == 1, "now it was");
            t_free(block);
            require(passed_blocks() == 1, "and its successor was the thread's own");
        }).join();
    });
}

/* More threads than the table has room for: what they do counts as that of others, and nothing is lost. */
TEST(Profile, MorePairsThanTheTableHas) {
    profiled(1, [] {
        constexpr size_t threads = HZ_PROFILE_PAIRS;
        for (size_t i = 0; i < threads; i++)
            std::thread([] { t_free(t_malloc(100)); }).join();
        require(hz_profile_pair_count() == HZ_PROFILE_PAIRS, "the table is full");
        Flow made;
        Flow freed;
        for (const auto &[pair, sums] : flow()) {
            Flow &sum = pair.second == HZ_PROFILE_NOBODY ? made : freed;
            sum.samples += sums.samples;
            sum.bytes += sums.bytes;
        }
        Sums sums = estimated();
        require(made.samples == sums.allocated_blocks && freed.samples == sums.freed_blocks, "all blocks");
        require(made.bytes == sums.allocated_bytes && freed.bytes == sums.freed_bytes, "and bytes");
        Pairs pairs = flow();
        require((pairs.count({HZ_PROFILE_OTHERS, HZ_PROFILE_NOBODY}) == 1), "some allocated by others");
        require((pairs.count({HZ_PROFILE_OTHERS, HZ_PROFILE_OTHERS}) == 1), "some freed by others");
    });
}

/* ---- fork, signals, little memory ---- */

TEST(Profile, OfAForksChild) {
    profiled(1, [] {
        void *block = t_malloc(100);
        size_t weight = hz_class_bytes(hz_class_of(100));
        pid_t child = children::start([&] {
            require(live_of(weight) == 1, "the parent's block");
            t_free(block);
            require(live_of(weight) == 0, "is freed in the child");
            void *own = t_malloc(100);
            require(hz_profile_has(own), "the child's are sampled");
            return 0;
        });
        require(children::code_of(child) == 0, "the child");
        require(live_of(weight) == 1, "the parent still has it");
        t_free(block);
    });
}

/* Forks while other threads sample without a pause. Each child must be able to sample and to free. */
TEST(Profile, ForkWhileOthersSample) {
    profiled(1, [] {
        std::atomic<bool> stop{false};
        std::thread other([&] {
            while (!stop)
                t_free(t_malloc(70));
        });
        for (int i = 0; i < 150; i++) {
            pid_t child = children::start([] {
                Blocks blocks(20);
                for (void *&block : blocks)
                    block = t_malloc(70);
                for (void *block : blocks)
                    t_free(block);
                return 0;
            });
            require(children::code_of(child) == 0, "a child", static_cast<size_t>(i));
        }
        stop = true;
        other.join();
    });
}

std::atomic<int> handled{0};

void on_alarm(int) {
    void *block = t_malloc(100 * KiB);
    if (block != nullptr)
        handled++;
    t_free(block);
}

/* Handlers may allocate when what they interrupt is not malloc (signal-safety(7)). */
TEST(Profile, SignalHandlersThatAllocate) {
    profiled(1, [] {
        struct sigaction action = {};
        action.sa_handler = on_alarm;
        require(sigaction(SIGALRM, &action, nullptr) == 0, "the handler");
        for (int i = 0; i < 200; i++)
            require(raise(SIGALRM) == 0, "raised");
        require(handled == 200, "each got its block");
        Sums sums = estimated();
        require(sums.allocated_blocks == sums.freed_blocks, "all are found");
    });
}

TEST(Profile, OffThereIsNothing) {
    children::expect_good_end(children::start([] {
        for (size_t i = 0; i < 100000; i++) {
            void *block = t_malloc(i);
            require(!hz_profile_has(block), "not sampled");
            t_free(block);
        }
        require(hz_profile_site_count() == 0 && hz_profile_rate() == 0, "no sites");
        return 0;
    }));
}

std::atomic<int> peaks;

/* At rate 1 each block is sampled, so the estimate is exact. It counts what the program asks for. */
TEST(Profile, APeakIsToldWhenItIsATenthAboveTheLast) {
    profiled(1, [] {
        hz_profile_watch_peak([] { peaks++; });
        Blocks blocks(1000);
        auto grow = [&blocks](size_t from, size_t to, size_t size) {
            int before = peaks;
            for (size_t i = from; i < to; i++)
                blocks[i] = t_malloc(size);
            return peaks - before;
        };
        require(grow(0, 1, 10) == 0, "below 16 times the rate");
        require(grow(1, 2, 10) == 1, "20 bytes: the first");
        require(grow(2, 3, 1) == 0, "21");
        require(grow(3, 4, 1) == 1, "22");
        require(grow(4, 5, 100000) == 1, "100022, however far it is");
        require(grow(5, 6, 9000) == 0, "109022");
        t_free(blocks[4]);
        require(grow(4, 5, 100000) == 0, "as before");
        blocks[4] = t_realloc(blocks[4], 200000);
        require(peaks == 4, "209022");
        for (size_t i = 0; i < 6; i++)
            t_free(blocks[i]);
        require(grow(0, 191, 1200) == 0, "229200 is above the last, but not by a tenth");
        require(grow(191, 192, 1200) == 1, "230400");
        for (size_t i = 0; i < 192; i++)
            t_free(blocks[i]);
    });
}

TEST(Profile, NoAddressSpace) {
    children::expect_good_end(children::start([] {
        t_free(t_malloc(1));
        struct rlimit limit = {64 << 20, 64 << 20};
        require(setrlimit(RLIMIT_AS, &limit) == 0, "the limit");
        require(!hz_sample_start_profile(1), "no profile");
        void *block = t_malloc(100);
        require(block != nullptr && !hz_profile_has(block), "an ordinary block");
        t_free(block);
        return 0;
    }));
}

/* Then the tables are small, and the pool can be filled. */
TEST(Profile, LittleAddressSpace) {
    children::expect_good_end(children::start([] {
        t_free(t_malloc(1));
        size_t pages = 0;
        FILE *sizes = fopen("/proc/self/statm", "r");
        require(sizes != nullptr && fscanf(sizes, "%zu", &pages) == 1 && fclose(sizes) == 0, "its size");
        size_t most = pages * static_cast<size_t>(getpagesize()) + 512 * MiB;
        struct rlimit limit = {most, most};
        require(setrlimit(RLIMIT_AS, &limit) == 0, "the limit");
        require(hz_sample_start_profile(1), "a profile");
        size_t held = 0;
        while (hz_profile_has(t_malloc(64 * KiB)))
            held++;
        require(held > 500, "the pool has room", held);
        for (size_t size = 16; size <= 64 * KiB; size *= 2)
            for (size_t i = 0; i < 100; i++)
                require(!hz_profile_has(t_malloc(size)), "the pool is full", size);
        for (size_t i = 0; i < 10; i++)
            require(t_malloc(100 * KiB) != nullptr, "a block", i);
        require(counted()[hz_profile_weight(100 * KiB)].allocated_blocks == 10, "large blocks are sampled");
        return 0;
    }));
}

/* ---- what is written ---- */

TEST(Profile, StreamBeginsAndEnds) {
    profiled(1, [] {
        t_free(t_malloc(100));
        int fd = memfd_create("profile", 0);
        require(hz_profile_write(fd) == 0, "written");
        auto length = static_cast<size_t>(lseek(fd, 0, SEEK_END));
        std::string text(length, '\0');
        require(pread(fd, text.data(), length, 0) == static_cast<ssize_t>(length), "read");
        require(text.rfind("\x7fhakoprf\x02", 0) == 0, "the head");
        require(static_cast<uint32_t>(text.back()) == hz_profile_site_count() && text[length - 2] == 0, "the end");
        close(fd);
        require(hz_profile_write(fd) == EBADF, "a bad descriptor");
    });
}

} // namespace
