/* When the OS refuses calls, no step keeps address space that it took: whichever call fails, as much is mapped
 * afterwards as if none had failed. */
#include "unit/base/faulty.h"
#include "unit/heap/fixture.h"

#include <sys/mman.h>
#include <thread>
#include <unistd.h>

namespace {

using children::require;
using support::KiB;
using support::MiB;
using unit::segment_bytes;

void touch(void *block, size_t size) {
    auto *bytes = static_cast<volatile unsigned char *>(block);
    if (block != nullptr)
        bytes[0] = bytes[size - 1] = 1;
}

void *get(size_t size, size_t alignment = 16) {
    void *block = t_aligned_alloc(alignment, size);
    touch(block, size);
    return block;
}

/* ---- scenarios: each gives back all that it gets ---- */

void blocks() {
    void *got[40] = {};
    size_t sizes[] = {100, 3000, 60 * KiB, 150 * KiB, 1 * MiB, 3 * MiB, 9 * MiB, 70 * MiB};
    for (size_t i = 0; i < std::size(got); i++)
        got[i] = get(sizes[i % std::size(sizes)]);
    for (void *block : got)
        t_free(block);
}

/* More than the segments that a process has at first, and than a chunk of address space holds. */
void many_runs() {
    void *got[36] = {};
    for (void *&block : got)
        block = get(2 * MiB);
    for (void *block : got)
        t_free(block);
}

/* In place, into the units behind it, and to a mapping of its own, and back. */
void resize(void *gap) {
    void *block = get(3 * MiB);
    for (size_t size : {7 * MiB, 12 * MiB, 30 * MiB, 100 * MiB, 180 * MiB, 20 * MiB, 5 * MiB, 300 * KiB, 4 * MiB}) {
        void *resized = block != nullptr ? t_realloc(block, size) : get(size);
        block = resized != nullptr ? resized : block;
        if (resized != nullptr)
            touch(resized, size);
    }
    t_free(block);
    t_free(gap);
}

void resized_blocks() {
    resize(nullptr);
    void *first = get(6 * MiB);
    void *gap = get(3 * MiB);
    resize(gap);
    void *grown = t_realloc(first, 40 * MiB);
    t_free(grown != nullptr ? grown : first);
}

void aligned_blocks() {
    void *got[22] = {};
    for (size_t i = 0; i < std::size(got); i++)
        got[i] = get(1 * MiB + i * 3 * MiB, 64 * KiB << (i % 15));
    for (void *block : got)
        t_free(block);
}

void zones() {
    struct hz_zone *zone = hz_zone_create();
    for (size_t i = 0; zone != nullptr && i < 30; i++)
        touch(hz_zone_malloc(zone, i % 3 == 0 ? 200 : i * 700 * KiB + 1), 1);
    if (zone != nullptr)
        hz_zone_destroy(zone);
}

void threads() {
    for (int i = 0; i < 2; i++)
        std::thread([] {
            blocks();
            zones();
        }).join();
}

void trims() {
    void *got[30] = {};
    for (size_t i = 0; i < std::size(got); i++)
        got[i] = get(i % 2 == 0 ? 1 * MiB : 5 * MiB);
    for (size_t i = 0; i < std::size(got); i += 3) {
        t_free(got[i]);
        got[i] = nullptr;
        hz_purge();
    }
    for (void *block : got)
        t_free(block);
    hz_purge();
}

/* ---- the same with refused calls ---- */

/* What is mapped once all is given back. Descriptions stay for ever, and are used again. */
size_t mapped_at_rest() {
    hz_purge();
    return hz_os_faulty_mapped_bytes() - hz_meta_bytes();
}

/* As long as nothing was refused, the scenario opens tables, makes segments and regions, and learns. So it runs three
 * times before what is mapped is looked at. */
struct AtRest {
    size_t mapped;
    size_t meta;
};

template <typename Scenario> AtRest after_three(Scenario scenario) {
    for (int i = 0; i < 3; i++)
        scenario();
    size_t mapped = mapped_at_rest();
    return {mapped, hz_meta_bytes()};
}

void first_block() {
    t_free(t_malloc(1));
}

template <typename Scenario> void keeps_nothing(Scenario scenario, unsigned at_least) {
    void *shared = mmap(nullptr, sizeof(AtRest), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(shared, MAP_FAILED);
    auto *expected = static_cast<AtRest *>(shared);
    children::expect_good_end(children::start([&] {
        first_block();
        scenario();
        *expected = after_three(scenario);
        require(after_three(scenario).mapped == expected->mapped, "without refused calls nothing is kept");
        return 0;
    }));
    auto check = [&] {
        AtRest found = after_three(scenario);
        size_t more = found.mapped - expected->mapped;
        if (more > hz_os_faulty_kept_bytes())
            fprintf(stderr, "%zd bytes more are mapped\n", static_cast<ssize_t>(more));
        require(more <= hz_os_faulty_kept_bytes(), "no more is mapped, but for what could not be unmapped");
        /* a segment, or the memory that describes a few */
        require(found.meta <= expected->meta + segment_bytes + 2 * MiB, "few descriptions are new");
        require(support::live_bytes() == 0, "no bytes are live");
    };
    unit::fail_each_call_both_ways(at_least, first_block, scenario, check);
    munmap(shared, sizeof(AtRest));
}

/* The tests run before this process has used the allocator, so that each child starts from nothing. */
class Space : public testing::Test {
  protected:
    void SetUp() override {
        ASSERT_EQ(hz_registry_first(), nullptr) << "the parent must not allocate";
    }
};

TEST_F(Space, Blocks) {
    keeps_nothing(blocks, 5);
}

TEST_F(Space, ManyRuns) {
    keeps_nothing(many_runs, 20);
}

TEST_F(Space, ResizedBlocks) {
    keeps_nothing(resized_blocks, 20);
}

TEST_F(Space, AlignedBlocks) {
    keeps_nothing(aligned_blocks, 10);
}

TEST_F(Space, Zones) {
    keeps_nothing(zones, 5);
}

TEST_F(Space, Threads) {
    keeps_nothing(threads, 10);
}

TEST_F(Space, Trims) {
    keeps_nothing(trims, 20);
}

/* In a fork's child a block that has grown is two mappings, which the kernel does not move. */
TEST_F(Space, BlocksOfAForksParent) {
    static void *held[4];
    auto in_child = [] {
        int status = children::wait_for(children::start([] {
            resized_blocks();
            size_t before = mapped_at_rest();
            for (int i = 0; i < 3; i++) {
                resized_blocks();
                void *grown = t_realloc(held[0], 40 * MiB + static_cast<size_t>(i) * MiB);
                held[0] = grown != nullptr ? grown : held[0];
            }
            hz_os_faulty_fail(UINT64_MAX, 0);
            resized_blocks();
            size_t grown = t_usable_size(held[0]) > 12 * MiB ? 64 * MiB : 0;
            require(mapped_at_rest() <= before + grown + hz_os_faulty_kept_bytes(),
                    "no more is mapped than before, but what a block has grown by");
            return 0;
        }));
        require(status == 0, "the child keeps nothing");
    };
    auto prepare = [] {
        for (void *&block : held)
            block = get(12 * MiB);
        resized_blocks();
    };
    for (unsigned after = 0; after < 40; after += 7)
        children::expect_good_end(children::start([&] {
            prepare();
            hz_os_faulty_fail(after, 7);
            in_child();
            return 0;
        }));
}

} // namespace
