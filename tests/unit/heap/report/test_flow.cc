/* Blocks that cross threads: builds with statistics count them, others estimate them from the profile's samples. */
#include "stress/children.h"
#include "unit/heap/fixture.h"
#include "unit/heap/worker.h"

#include <cmath>

namespace {

using children::require;
using support::KiB;
using support::MiB;

struct Kind {
    size_t size;
    uint64_t allocated;
    uint64_t passed; /* freed by the main thread */
    uint64_t own;    /* freed by the thread that allocated them */
};

constexpr Kind kinds[] = {
    {100, 3000, 1500, 500}, {5000, 400, 300, 0}, {100 * KiB, 40, 10, 10}, {3 * MiB - 3000, 8, 6, 0}};

unsigned size_of(size_t bytes) {
    if (bytes <= HZ_CLASS_BYTES_MAX)
        return hz_class_of(bytes);
    return HZ_CLASS_COUNT + static_cast<unsigned>(std::ceil(std::log2(bytes)));
}

struct hz_flow flow_now() {
    struct hz_figures figures;
    struct hz_flow flow;
    hz_figures_get(&figures);
    require(hz_flow_get(&flow, &figures), "the flow is known");
    return flow;
}

/* A worker allocates, and the main thread frees a part. Returns the worker's id. */
uint32_t let_cross(std::vector<std::vector<void *>> &held, unsigned times) {
    uint32_t worker_id = 0;
    unit::Worker worker;
    worker.run([&] {
        worker_id = hz_os_thread_id();
        for (const Kind &kind : kinds) {
            held.emplace_back();
            for (uint64_t i = 0; i < kind.allocated * times; i++)
                held.back().push_back(t_malloc(kind.size));
            for (uint64_t i = 0; i < kind.own * times; i++) {
                t_free(held.back().back());
                held.back().pop_back();
            }
        }
    });
    for (size_t k = 0; k < std::size(kinds); k++)
        for (uint64_t i = 0; i < kinds[k].passed * times; i++) {
            t_free(held[k].back());
            held[k].pop_back();
        }
    return worker_id;
}

TEST(Flow, EveryBlockIsCounted) {
    if (!HZ_CONFIG_STATS)
        GTEST_SKIP() << "only builds with statistics count blocks";
    children::expect_good_end(children::start([] {
        struct hz_flow before = flow_now();
        std::vector<std::vector<void *>> held;
        uint32_t worker = let_cross(held, 1);
        struct hz_flow after = flow_now();
        require(!after.is_sampled, "every block is counted");
        for (const Kind &kind : kinds) {
            unsigned size = size_of(kind.size);
            const struct hz_flow_size &now = after.sizes[size];
            require(now.passed_blocks - before.sizes[size].passed_blocks == kind.passed, "passed", kind.size);
            uint64_t freed = now.freed_blocks - before.sizes[size].freed_blocks;
            require(freed >= kind.passed + kind.own && freed <= kind.passed + kind.own + 5, "freed", kind.size);
            size_t bytes = size < HZ_CLASS_COUNT ? hz_class_bytes(size) : hz_query_bytes_for(kind.size);
            require(now.passed_bytes - before.sizes[size].passed_bytes == kind.passed * bytes, "bytes", kind.size);
            double live = static_cast<double>(kind.allocated - kind.passed - kind.own);
            double share = static_cast<double>(now.passed_blocks) / static_cast<double>(now.freed_blocks);
            require(std::abs(static_cast<double>(now.in_flight_blocks) - live * share) <= 0.05 * live + 5, "in flight",
                    kind.size);
        }
        uint64_t found = 0;
        struct hz_flow_pair pair;
        for (uint32_t number = 0; hz_flow_pair_next(&number, &pair);)
            for (const Kind &kind : kinds)
                if (pair.from == worker && pair.to == hz_os_thread_id() && pair.size == size_of(kind.size)) {
                    require(pair.blocks == kind.passed, "the pair's blocks", kind.size);
                    found++;
                }
        require(found == std::size(kinds), "a pair for each size", found);
        return 0;
    }));
}

TEST(Flow, ABlockThatIsResizedInPlaceKeepsItsThread) {
    if (!HZ_CONFIG_STATS)
        GTEST_SKIP() << "only builds with statistics count blocks";
    children::expect_good_end(children::start([] {
        void *block = nullptr;
        unit::Worker worker;
        worker.run([&] { block = t_malloc(5 * MiB); });
        struct hz_flow before = flow_now();
        block = t_realloc(block, 12 * MiB); /* moves its pages, not its bytes */
        t_free(block);
        struct hz_flow after = flow_now();
        unsigned size = size_of(12 * MiB);
        require(after.sizes[size].passed_blocks - before.sizes[size].passed_blocks == 1, "it crosses");
        return 0;
    }));
}

/* 70 threads free blocks of 70 sizes each: more pairs than the table holds. */
TEST(Flow, PairsWithoutRoomAreCountedTogether) {
    if (!HZ_CONFIG_STATS)
        GTEST_SKIP() << "only builds with statistics count blocks";
    children::expect_good_end(children::start([] {
        constexpr unsigned most = 70;
        uint64_t pairs = 0;
        for (unsigned number = 0; number < most; number++) {
            std::vector<void *> blocks;
            for (unsigned size_class = 1; size_class <= most; size_class++)
                blocks.push_back(t_malloc(hz_class_bytes(size_class)));
            std::thread([&] {
                for (void *block : blocks)
                    t_free(block);
            }).join();
        }
        uint64_t all = 0;
        uint64_t beyond = 0;
        struct hz_flow_pair pair;
        for (uint32_t number = 0; hz_flow_pair_next(&number, &pair); pairs++) {
            require(pairs < uint64_t{most} * most, "the pairs have an end");
            all += pair.blocks;
            beyond += pair.from == UINT32_MAX ? pair.blocks : 0;
        }
        require(all == uint64_t{most} * most, "every block is in some pair", all);
        require(beyond >= 800 && beyond < all / 2, "some are in the pair of the others", beyond);
        return 0;
    }));
}

TEST(Flow, SamplesEstimateIt) {
    if (HZ_CONFIG_STATS)
        GTEST_SKIP() << "builds with statistics count blocks";
    children::expect_good_end(children::start([] {
        constexpr unsigned times = 10;
        struct hz_figures figures;
        struct hz_flow flow;
        hz_figures_get(&figures);
        require(!hz_flow_get(&flow, &figures), "nothing is known without a profile");
        require(hz_sample_start_profile(4 * KiB), "there is memory for the profile");
        std::vector<std::vector<void *>> held;
        uint32_t worker = let_cross(held, times);
        flow = flow_now();
        require(flow.is_sampled, "these are estimates");
        double bytes = 0;
        for (const Kind &kind : kinds) {
            const struct hz_flow_size &now = flow.sizes[size_of(kind.size)];
            double passed = static_cast<double>(kind.passed * times);
            double live = static_cast<double>((kind.allocated - kind.passed - kind.own) * times);
            double share = static_cast<double>(kind.passed) / static_cast<double>(kind.passed + kind.own);
            /* 100 bytes: 15000 x 2.4 % = 366 samples: 6 times 5.2 %; larger ones are all or nearly all sampled */
            double slack = kind.size < 4 * KiB ? 0.35 : 0.2;
            require(std::abs(static_cast<double>(now.passed_blocks) / passed - 1) < slack, "passed", kind.size);
            require(std::abs(static_cast<double>(now.in_flight_blocks) / (live * share) - 1) < 1.5 * slack, "in flight",
                    kind.size);
            bytes += static_cast<double>(now.passed_bytes);
        }
        uint32_t found = 0;
        struct hz_flow_pair pair;
        for (uint32_t number = 0; hz_flow_pair_next(&number, &pair);) {
            require(pair.from == worker && pair.to == hz_os_thread_id() && pair.size == HZ_SIZES, "the only pair");
            require(std::abs(static_cast<double>(pair.bytes) / bytes - 1) < 0.001, "the pair has all passed bytes");
            found++;
        }
        require(found == 1, "one pair", found);
        return 0;
    }));
}

} // namespace
