/* The pool of the sampling guard: where blocks lie, what free finds, and which block an address belongs to. */
#include "unit/base/watch/guarded.h"

#include <gtest/gtest.h>
#include <set>

namespace {

using guarded::accessible;
using guarded::at_left_edge;
using guarded::number;
using guarded::require;
using guarded::room_end;
using guarded::slot_of;
using guarded::with_pool;

constexpr size_t block_max = HZ_GUARD_BLOCK_MAX;
constexpr size_t slots = HZ_GUARD_SLOTS;

char *take(size_t size, size_t alignment = 16) {
    return static_cast<char *>(hz_guard_alloc(size, alignment));
}

enum hz_guard_answer give(const void *block) {
    struct hz_guard_slot slot;
    return hz_guard_pool_free(block, &slot);
}

/* A block at the wanted edge. Frees blocks at the other edge. */
char *take_at(size_t size, bool left) {
    for (;;) {
        char *block = take(size);
        require(block != nullptr, "there is a slot");
        if (at_left_edge(block) == left)
            return block;
        require(give(block) == HZ_GUARD_OK, "the block is freed");
    }
}

struct hz_guard_figures figures() {
    struct hz_guard_figures got;
    hz_guard_figures_get(&got);
    return got;
}

TEST(GuardPool, DoesNotExistUnlessAskedFor) {
    children::expect_good_end(children::start([] {
        require(hz_guard_rate() == 0 && figures().mapped_bytes == 0, "there is no pool");
        int here = 0;
        for (uintptr_t address : {uintptr_t{0}, number(&here), UINTPTR_MAX})
            require(!hz_guard_has(reinterpret_cast<void *>(address)), "no address is in it");
        return 0;
    }));
    with_pool([] {
        require(hz_guard_rate() == 7, "the rate is known");
        require(figures().mapped_bytes > slots * (block_max + guarded::os_page()), "the pool is mapped");
        uintptr_t begin = hz_load_rlx(&hz_guard_range.begin);
        size_t bytes = hz_load_rlx(&hz_guard_range.bytes);
        for (uintptr_t inside : {begin, begin + bytes / 2, begin + bytes - 1})
            require(hz_guard_has(reinterpret_cast<void *>(inside)) && !accessible(reinterpret_cast<void *>(inside)),
                    "the pool's addresses cannot be accessed");
        require(!hz_guard_has(reinterpret_cast<void *>(begin - 1)) &&
                    !hz_guard_has(reinterpret_cast<void *>(begin + bytes)),
                "the pool has ends");
    });
}

/* The block ends less than its alignment before an inaccessible page, or begins right behind one. */
void require_edge(char *block, size_t size, size_t alignment) {
    size_t needed = hz_round_up(std::max(size, size_t{1}), alignment);
    require(number(block) % alignment == 0, "the block is aligned", size);
    require(at_left_edge(block) || block + needed == room_end(block), "the block is at an edge", size);
    require(!accessible(block - 1) || !at_left_edge(block), "nothing is before the left edge", size);
    require(!accessible(room_end(block)), "nothing is behind the right edge", size);
    require(size == 0 || (accessible(block) && accessible(block + size - 1)), "the block is accessible", size);
}

TEST(GuardPool, BlocksLieAtTheEdges) {
    with_pool([] {
        for (size_t size : {size_t{0}, size_t{1}, size_t{15}, size_t{16}, size_t{17}, size_t{100}, size_t{4095},
                            size_t{4096}, size_t{4097}, size_t{9000}, block_max - 1, block_max}) {
            bool seen[2] = {};
            for (int i = 0; i < 50; i++) {
                char *block = take(size);
                require(block != nullptr, "there is a slot", size);
                require_edge(block, size, 16);
                seen[at_left_edge(block)] = true;
                require(give(block) == HZ_GUARD_OK, "the block is freed", size);
                require(!accessible(block), "a freed block cannot be accessed", size);
            }
            require(size > block_max - 16 || (seen[0] && seen[1]), "chance decides which edge", size);
        }
    });
}

TEST(GuardPool, AlignsUpToASystemPage) {
    with_pool([] {
        for (size_t alignment = 1; alignment <= guarded::os_page(); alignment *= 2)
            for (int i = 0; i < 8; i++) {
                char *block = take(100, alignment);
                require_edge(block, 100, alignment);
                give(block);
            }
        require(take(100, 2 * guarded::os_page()) == nullptr, "a larger alignment is refused");
        require(take(block_max + 1) == nullptr && take(SIZE_MAX) == nullptr, "a larger block is refused");
        for (size_t i = 0; i < slots; i++)
            require(take(1) != nullptr, "a refusal costs no slot", i);
    });
}

TEST(GuardPool, BlocksKeepTheirContents) {
    with_pool([] {
        std::vector<char *> blocks;
        size_t live = 0;
        for (size_t i = 0; i < slots; i++) {
            size_t size = i * 64;
            blocks.push_back(take(size));
            require(blocks[i] != nullptr, "there is a slot");
            support::fill(blocks[i], size, i);
            live += size;
        }
        require(take(1) == nullptr, "every slot is in use");
        require(figures().live_bytes == live && figures().resident_bytes >= live, "the bytes are counted");
        for (size_t i = 0; i < slots; i++) {
            struct hz_guard_slot slot;
            require(support::holds(blocks[i], i * 64, i), "blocks do not overlap");
            require(hz_guard_pool_look(blocks[i], &slot) == HZ_GUARD_OK && slot.size == i * 64, "the size is exact");
            require(give(blocks[i]) == HZ_GUARD_OK, "the block is freed");
        }
        require(figures().live_bytes == 0 && figures().resident_bytes == 0, "nothing is left");
    });
}

TEST(GuardPool, UsesTheSlotAgainThatWasFreedFirst) {
    with_pool([] {
        for (int round = 0; round < 3; round++) {
            char *first = take(10);
            give(first);
            for (size_t i = 1; i < slots; i++) {
                char *other = take(10);
                require(slot_of(other) != slot_of(first), "others come first", i);
                give(other);
            }
            char *again = take(10);
            require(slot_of(again) == slot_of(first), "then it is its turn");
            give(again);
        }
    });
}

/* ---- misuse ---- */

TEST(GuardPool, FreeTellsWhatIsWrong) {
    with_pool([] {
        char *block = take_at(100, true);
        require(give(block + 1) == HZ_GUARD_INSIDE && give(block + 100) == HZ_GUARD_INSIDE, "not the start");
        require(give(block - 16) == HZ_GUARD_INSIDE, "a guard page beside the block");
        require(give(block) == HZ_GUARD_OK, "none of them freed it");
        require(give(block) == HZ_GUARD_TWICE, "freed twice");
        require(give(block + 16) == HZ_GUARD_INSIDE, "inside a freed block");
        struct hz_guard_slot slot;
        require(hz_guard_pool_look(block, &slot) == HZ_GUARD_TWICE && slot.state == HZ_GUARD_FREED, "a look too");
        require(slot.start == block && slot.size == 100, "the block is known");
        uintptr_t end = hz_load_rlx(&hz_guard_range.begin) + hz_load_rlx(&hz_guard_range.bytes);
        require(give(reinterpret_cast<void *>(end - 1)) == HZ_GUARD_NO_BLOCK, "no block was ever there");
    });
}

/* Each byte beside the block, up to 64 on either side, that the system page still has. */
TEST(GuardPool, FreeSeesWritesBesideTheBlock) {
    with_pool([] {
        for (size_t size : {size_t{0}, size_t{1}, size_t{100}, size_t{4000}})
            for (bool left : {false, true}) {
                char *sample = take_at(size, left);
                char *pages_end =
                    left ? sample + hz_round_up(std::max(size, size_t{1}), guarded::os_page()) : room_end(sample);
                size_t behind = std::min(static_cast<size_t>(pages_end - (sample + size)), size_t{64});
                size_t before = std::min(number(sample) % guarded::os_page(), size_t{64});
                require(give(sample) == HZ_GUARD_OK, "nothing was written");
                for (size_t i = 0; i < behind; i++) {
                    char *block = take_at(size, left);
                    block[size + i] = static_cast<char>(block[size + i] + 1);
                    require(give(block) == HZ_GUARD_OVERWRITE, "a write behind the block", i);
                }
                for (size_t i = 1; i <= before; i++) {
                    char *block = take_at(size, left);
                    block[-static_cast<ptrdiff_t>(i)] = 0;
                    require(give(block) == HZ_GUARD_UNDERWRITE, "a write before the block", i);
                }
            }
    });
}

TEST(GuardPool, FindsTheBlockThatAnAddressBelongsTo) {
    with_pool([] {
        std::vector<char *> blocks; /* slot i has block i: a fresh pool hands them out in order */
        for (size_t i = 0; i < slots; i++)
            blocks.push_back(take(100));
        size_t left = 0; /* a slot whose block ends at a guard page behind which the next block begins */
        while (at_left_edge(blocks[left]) || !at_left_edge(blocks[left + 1]))
            require(++left + 1 < slots, "chance puts two blocks beside one guard page");
        char *first = room_end(blocks[left]);
        char *last = blocks[left + 1] - 1;
        auto start_of = [](const char *address) {
            struct hz_guard_slot slot = {};
            return hz_guard_find(address, &slot) ? slot.start : nullptr;
        };
        require(start_of(first) == blocks[left], "the nearer block is the left one");
        require(start_of(last) == blocks[left + 1], "the nearer block is the right one");
        require(start_of(blocks[left] + 50) == blocks[left], "inside");
        require(start_of(blocks[left] - 5000) == blocks[left], "the rest of the room belongs to the block");
        give(blocks[left]);
        require(start_of(first) == blocks[left + 1], "the one that is live");
        give(blocks[left + 1]);
        require(start_of(first) == blocks[left] && start_of(last) == blocks[left + 1], "both freed: the nearer one");
        auto *begin = reinterpret_cast<char *>(hz_load_rlx(&hz_guard_range.begin));
        require(start_of(begin) == blocks[0], "the first guard page has one neighbour");
        require(start_of(begin + hz_load_rlx(&hz_guard_range.bytes) - 1) == blocks[slots - 1], "the last one too");
    });
    with_pool([] {
        struct hz_guard_slot slot;
        char *only = take(100);
        require(!hz_guard_find(only + 3 * guarded::stride(), &slot), "an unused slot has no block");
        require(hz_guard_find(room_end(only) + 1, &slot) && slot.start == only, "nor is it blamed");
    });
}

/* ---- call stacks ---- */

__attribute__((noinline)) void *take_here(void **caller) {
    *caller = __builtin_return_address(0);
    void *block = hz_guard_alloc(100, 16);
    return t_opaque(block);
}

bool has(const struct hz_callstack &stack, const void *address) {
    for (uint32_t i = 0; i < stack.depth; i++)
        if (stack.addresses[i] == address)
            return true;
    return false;
}

TEST(GuardPool, RecordsWhoAllocatedAndFreed) {
    with_pool([] {
        void *caller;
        void *block = take_here(&caller);
        struct hz_guard_slot slot;
        require(hz_guard_find(block, &slot) && slot.state == HZ_GUARD_LIVE, "the block is live");
        require(has(slot.allocated, caller), "the caller of the allocating function is recorded");
        require(slot.allocated.thread_id == hz_os_thread_id() && slot.freed.thread_id == 0, "and its thread");
        uint32_t freer = 0;
        std::thread([&] {
            freer = hz_os_thread_id();
            give(block);
        }).join();
        require(hz_guard_find(block, &slot) && slot.state == HZ_GUARD_FREED, "the block is freed");
        require(slot.freed.thread_id == freer && slot.freed.depth > 0, "by the other thread");
        require(has(slot.allocated, caller), "who allocated it is not forgotten");
    });
}

/* ---- threads and forks ---- */

/* Allocates and frees, so that a fork can happen at any moment of it. */
void churn(std::atomic<bool> &stop, std::atomic<bool> &started, uint64_t seed) {
    support::Random random(seed);
    while (!stop) {
        size_t size = random.between(1, 300);
        char *block = take(size);
        if (block == nullptr)
            continue;
        support::fill(block, size, seed);
        require(support::holds(block, size, seed), "a block is one thread's alone");
        require(give(block) == HZ_GUARD_OK, "the block is freed");
        started = true;
    }
}

TEST(GuardPool, ThreadsDoNotShareSlots) {
    with_pool([] {
        std::atomic<unsigned> done{0};
        unit::together(4, [&](unsigned index) {
            support::Random random(index);
            for (unsigned i = 0; i < unit::rounds(3000); i++) {
                size_t size = random.between(0, 500);
                char *block = take(size);
                require(block != nullptr, "there is a slot");
                support::fill(block, size, index * 100000 + i);
                require(support::holds(block, size, index * 100000 + i), "a block is one thread's alone");
                require(give(block) == HZ_GUARD_OK, "the block is freed");
            }
            done++;
        });
        require(done == 4 && figures().live_bytes == 0, "all are freed");
        for (size_t i = 0; i < slots; i++)
            require(take(1) != nullptr, "no slot is lost", i);
        require(take(1) == nullptr, "no slot is there twice");
    });
}

TEST(GuardPool, ChildOfAForkHasAllSlotsButThoseInUse) {
    with_pool([] {
        std::atomic<bool> stop{false};
        std::atomic<bool> started{false};
        char *kept = take(77);
        support::fill(kept, 77, 3);
        std::thread busy(churn, std::ref(stop), std::ref(started), 5);
        while (!started)
            std::this_thread::yield();
        for (unsigned i = 0; i < unit::rounds(200); i++)
            require(children::code_of(children::start([=] {
                        hz_guard_after_fork();
                        std::set<size_t> used = {slot_of(kept)};
                        for (size_t count = 1; count < slots - 1; count++) { /* the other thread had one at most */
                            char *block = take(50);
                            require(block != nullptr, "the child has the slots", count);
                            require(used.insert(slot_of(block)).second, "no slot is there twice", count);
                        }
                        require(support::holds(kept, 77, 3) && give(kept) == HZ_GUARD_OK,
                                "the parent's block is sound");
                        return 0;
                    })) == 0,
                    "the child ends well");
        stop = true;
        busy.join();
    });
}

} // namespace
