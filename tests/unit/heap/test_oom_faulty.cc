/* When the OS refuses calls, the public functions return NULL and ENOMEM, lose nothing, and work again later. */
#include "unit/base/faulty.h"
#include "unit/heap/fixture.h"

#include <cerrno>

namespace {

using children::require;
using support::KiB;
using support::MiB;

constexpr size_t sizes[] = {1, 16, 300, 2000, 9 * KiB, 60 * KiB, 150 * KiB, MiB, 3 * MiB, 9 * MiB};
constexpr size_t mark_bytes = 64; /* at both ends; not the whole block, because there are many children */

struct Block {
    unsigned char *start;
    size_t size;
};

Block held[600];
size_t held_count;

void mark(const Block &block, uint64_t seed) {
    size_t part = std::min(block.size, mark_bytes);
    support::fill(block.start + block.size - part, part, seed + 1000);
    support::fill(block.start, part, seed);
}

bool marked(const Block &block, uint64_t seed) {
    size_t part = std::min(block.size, mark_bytes);
    bool end = block.size < 2 * mark_bytes || support::holds(block.start + block.size - part, part, seed + 1000);
    return end && support::holds(block.start, part, seed);
}

void keep(void *block, size_t size) {
    require(errno == (block != nullptr ? 0 : ENOMEM), "NULL comes with ENOMEM, and a block leaves errno alone");
    if (block == nullptr)
        return;
    require(t_usable_size(block) >= size, "the usable size is large enough");
    held[held_count] = {static_cast<unsigned char *>(block), size};
    mark(held[held_count], held_count);
    held_count++;
}

void nothing() {
}

void warm_up() {
    t_free(t_malloc(1));
}

void allocate_everything() {
    for (size_t size : sizes) {
        errno = 0;
        keep(t_malloc(size), size);
        errno = 0;
        void *zeroed = t_calloc(1, size);
        require(zeroed == nullptr || support::is_zero(zeroed, size), "calloc is zero");
        keep(zeroed, size);
        errno = 0;
        void *aligned = t_aligned_alloc(32 * KiB, size);
        require(support::aligned_to(aligned, 32 * KiB), "the block is aligned");
        keep(aligned, size);
        errno = EILSEQ;
        void *out = &out;
        int error = t_table.posix_memalign_fn(&out, 128, size);
        require((error == 0 && out != &out) || (error == ENOMEM && out == &out),
                "posix_memalign returns the error, and leaves the pointer alone");
        require(errno == EILSEQ, "posix_memalign leaves errno alone");
        errno = error;
        keep(error == 0 ? out : nullptr, size);
    }
}

void free_everything() {
    for (size_t i = 0; i < held_count; i++) {
        require(marked(held[i], i), "contents are intact");
        errno = EILSEQ;
        t_free(held[i].start);
        require(errno == EILSEQ, "free leaves errno alone");
    }
    held_count = 0;
}

/* With an OS that works again: nothing is lost, and every allocation succeeds. */
void check() {
    free_everything();
    require(support::live_bytes() == 0, "no bytes are live");
    allocate_everything();
    require(held_count == 4 * std::size(sizes), "allocation works again");
    free_everything();
    hz_purge();
    struct hz_stats stats = {};
    require(t_stats_get(&stats) == 0 && stats.live_bytes == 0 && stats.cached_bytes == 0, "all blocks are home");
    require(stats.mapping_count == 0, "no mapping is left");
}

/* The tests run before this process has used the allocator, so that each child starts from nothing. */
class Oom : public testing::Test {
  protected:
    void SetUp() override {
        ASSERT_EQ(hz_registry_first(), nullptr) << "the parent must not allocate";
    }
};

TEST_F(Oom, FirstAllocationsOfAProcess) {
    unit::fail_each_call_both_ways(20, nothing, allocate_everything, check);
}

TEST_F(Oom, AllocationsOfAProcessThatRuns) {
    unit::fail_each_call_both_ways(12, warm_up, allocate_everything, check);
}

TEST_F(Oom, ManySmallBlocks) {
    auto work = [] {
        size_t misses = 0;
        for (size_t i = 0; i < 450 && misses < 10; i++) {
            errno = 0;
            size_t before = held_count;
            keep(t_malloc(30 * KiB), 30 * KiB);
            misses += held_count == before;
        }
    };
    unit::fail_each_call_both_ways(3, warm_up, work, check);
}

TEST_F(Oom, ReallocKeepsTheOldBlock) {
    auto work = [] {
        for (size_t from : {size_t{100}, 9 * KiB, 100 * KiB, 3 * MiB, 9 * MiB})
            for (size_t to : {size_t{200}, 20 * KiB, 300 * KiB, 5 * MiB, 30 * MiB}) {
                Block block = {static_cast<unsigned char *>(t_malloc(from)), from};
                if (block.start == nullptr)
                    continue;
                support::fill(block.start, from, 1);
                errno = 0;
                void *resized = t_realloc(block.start, to);
                require(resized != nullptr || errno == ENOMEM, "NULL comes with ENOMEM");
                require(resized != nullptr || to > from, "shrinking always succeeds");
                auto *now = static_cast<unsigned char *>(resized == nullptr ? block.start : resized);
                require(support::holds(now, std::min(from, to), 1), "contents are intact");
                require(t_usable_size(now) >= (resized == nullptr ? from : to), "the usable size is large enough");
                t_free(now);
            }
    };
    unit::fail_each_call_both_ways(6, warm_up, work, check);
}

TEST_F(Oom, FreeAndPurgeNeverFail) {
    auto prepare = [] { allocate_everything(); };
    auto work = [] {
        free_everything();
        hz_purge();
        require(support::live_bytes() == 0, "no bytes are live");
    };
    unit::fail_each_call_both_ways(5, prepare, work, check);
}

TEST_F(Oom, ThreadsThatCannotAttach) {
    auto work = [] {
        std::thread([] {
            allocate_everything();
            free_everything();
        }).join();
    };
    unit::fail_each_call_both_ways(10, warm_up, work, check);
}

TEST_F(Oom, BlocksFreedByAThreadWithoutMemory) {
    auto work = [] { std::thread(free_everything).join(); };
    /* with all calls refused the thread has no thread block, and each free puts its block into its page */
    unit::fail_each_call(UINT64_MAX, allocate_everything, work, check);
    unit::fail_each_call(1, allocate_everything, work, check);
}

TEST_F(Oom, WithoutMemoryForTheFlatTable) {
    children::expect_good_end(children::start([] {
        hz_os_faulty_fail(0, 1);
        allocate_everything();
        require(!hz_pagetags.flat, "the table is small");
        unit::os_works_again();
        require(held_count >= 3 * std::size(sizes), "the small table is enough");
        check();
        unit::together(3, [](unsigned index) {
            support::Random random(index);
            void *blocks[64] = {};
            size_t block_sizes[64] = {};
            for (unsigned i = 0; i < unit::rounds(20000); i++) {
                size_t at = random.below(64);
                require(blocks[at] == nullptr || support::holds(blocks[at], block_sizes[at], at),
                        "contents are intact");
                t_free(blocks[at]);
                block_sizes[at] = random.between(1, random.below(100) == 0 ? 3 * MiB : 1000);
                blocks[at] = t_malloc(block_sizes[at]);
                block_sizes[at] = std::min<size_t>(block_sizes[at], 2000);
                support::fill(blocks[at], block_sizes[at], at);
            }
            for (void *block : blocks)
                t_free(block);
        });
        check();
        return 0;
    }));
}

TEST_F(Oom, StatisticsWorkWithoutMemory) {
    auto work = [] {
        struct hz_stats stats = {};
        require(t_stats_get(&stats) == 0, "statistics work");
        require(hz_good_size(100) >= 100, "hz_good_size works");
        hz_os_faulty_fail(0, UINT64_MAX);
        keep(t_malloc(100), 100);
    };
    children::expect_good_end(children::start([=] {
        hz_os_faulty_fail(0, UINT64_MAX);
        work();
        require(held_count == 0, "every allocation fails");
        require(hz_purge() == 0, "a purge finds nothing");
        unit::os_works_again();
        check();
        return 0;
    }));
}

} // namespace
