/*
 * fixture.h - what the unit tests of the heap share: the shard's lock as a scope, blocks taken from a shard's pages
 * without the bins, and a shard that belongs to the test alone.
 */
#ifndef HZ_TESTS_UNIT_HEAP_FIXTURE_H
#define HZ_TESTS_UNIT_HEAP_FIXTURE_H

#include "unit/base/fixture.h"
#include "unit/on_cpu.h"

extern "C" {
#include "heap/cache/inspect.h"
}

#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <vector>

namespace unit {

using Blocks = std::vector<void *>;

/* The heap's constants as typed numbers: C++ warns when an enumerator is compared with an unsigned. */
inline constexpr unsigned class_count = HZ_CLASS_COUNT;
inline constexpr uint32_t home_count = HZ_HOME_COUNT;
/* The largest class whose blocks are not long (class_policy.h): each bin has room for some, and an only page stays. */
inline constexpr unsigned largest_short = HZ_LONG_CLASS_FIRST - 1;

/* How this lane sends blocks home. `none`: straight into the pages. `tiers` stands for stash, transfer and central,
   `inbox` for hz3's stash alone too. */
enum class Mail { none, tiers, inbox, pages };

inline Mail mail() {
    if (HZ_WAY_IS_DIRECT)
        return Mail::none;
    if (HZ_WAY_IS_QUEUES)
        return Mail::pages;
    return HZ_WAY_IS_STAGES ? Mail::tiers : Mail::inbox;
}

/* The calling thread's block; attaches the thread if necessary. Ends the program when there is no memory. */
inline struct hz_thread_block *self() {
    if (!hz_is_attached(hz_self()) && hz_thread_attach() == nullptr)
        abort();
    return hz_self();
}

/* Blocks in a bin. `index`: a class or HZ_REMOTE_BIN. */
inline uint32_t bin_count(struct hz_thread_block *thread, unsigned index) {
    return hz_bin_held(&thread->cache, index);
}

/* Mid blocks in a thread's remote buffer. */
inline uint32_t mid_in_buffer(struct hz_thread_block *thread) {
    uint32_t count = bin_count(thread, HZ_REMOTE_BIN);
    void *newest = thread->cache.bins[HZ_REMOTE_BIN].newest;
    void **older = hz_bin_base(&thread->cache, HZ_REMOTE_BIN) + 1;
    return count == 0 ? 0 : hz_blocks_count_mid(older, count - 1) + hz_blocks_count_mid(&newest, 1);
}

/* Gives every bin of a thread all the room it can have, beside its allowance, and no early limit. The bins become
   empty. */
inline void grow_bins(struct hz_thread_block *thread) {
    for (unsigned size_class = 1; size_class < class_count; size_class++) {
        hz_bin_send_home(thread, size_class);
        hz_bin_room_set(&thread->cache, size_class, hz_bin_capacity(size_class));
        hz_bin_limit_set(&thread->cache, size_class, hz_bin_capacity(size_class));
    }
    hz_bin_limit_set(&thread->cache, HZ_REMOTE_BIN, HZ_REMOTE_COUNT);
    thread->room_bytes = 0;
    thread->long_room_bytes = 0;
    thread->frees_watched = HZ_FREES_WATCHED;
}

/* From now on the thread's ticks leave its idle bins alone, however slow the machine is. */
inline void forbid_idle_looks(struct hz_thread_block *thread) {
    thread->idle_next = 0;
    thread->idle_at_ms = UINT64_MAX / 2;
}

/* Does a chore, as a turn of the driver would. */
inline struct hz_turn do_chore(enum hz_chore chore, enum hz_driver driver) {
    struct hz_turn turn = {};
    turn.driver = driver;
    turn.now_ms = hz_os_now_ms();
    turn.busy = HZ_REMOTE_BIN;
    (void)hz_chore_do(self(), chore, &turn);
    return turn;
}

/* No class is sparse any more, and ticks know how little rests in the depot. */
inline void forget_sparse() {
    (void)do_chore(HZ_CHORE_sparse, HZ_ROUND);
    hz_classes_forget_sparse();
}

/* A thread's allowance when so many threads share. */
inline size_t allowance_of(size_t threads) {
    size_t few = std::min(threads, size_t{HZ_ROOM_FEW});
    size_t shared =
        (HZ_ROOM_SHARED_BYTES + few * HZ_ROOM_FEW_BYTES) / std::max(threads, size_t{HZ_ROOM_FEW}) * HZ_ROOM_FEW;
    return size_t{HZ_ROOM_BYTES} + (shared + hz_pressure_recent_out_short() / 2) / threads;
}

inline struct hz_page *partial(struct hz_shard *shard, unsigned size_class) {
    return hz_load_rlx(&shard->classes[size_class].partial);
}

/* How many of `count` blocks that were sent to a shard wait for it: none in lanes without mailboxes. */
inline uint32_t waits(uint32_t count) {
    return mail() == Mail::none ? 0 : count;
}

/* The smallest class, one that is no power of two, the last linear class, the first class above it, one near 1 KiB, the
   largest small class, a mid class and the largest class that is not long. */
inline std::vector<unsigned> some_classes() {
    return {1,
            3,
            HZ_LINEAR_CLASSES,
            HZ_LINEAR_CLASSES + 1,
            hz_class_of(1008),
            hz_class_of(HZ_SMALL_MAX),
            hz_class_of(15000),
            largest_short};
}

/* Of long blocks: the smallest class, whose pages hold several; one that leaves a part of its pages unused; a page with
   two blocks; one block of 1 MiB; and the largest class. */
inline std::vector<unsigned> some_long_classes() {
    return {HZ_LONG_CLASS_FIRST, hz_class_of(88 << 10), hz_class_of(160 << 10), hz_class_of(1 << 20), class_count - 1};
}

inline std::vector<unsigned> some_short_and_long_classes() {
    std::vector<unsigned> classes = some_classes();
    std::vector<unsigned> more = some_long_classes();
    classes.insert(classes.end(), more.begin(), more.end());
    return classes;
}

/* The classes of some_classes() for which `chosen` returns true. */
template <typename Chosen> std::vector<unsigned> some_classes(Chosen chosen) {
    std::vector<unsigned> classes;
    for (unsigned size_class : some_classes())
        if (chosen(size_class))
            classes.push_back(size_class);
    return classes;
}

/* Holds a shard's exclusive. */
class Exclusive {
  public:
    explicit Exclusive(struct hz_shard *shard) : lock_(&shard->exclusive) {
        hz_lock_acquire(lock_);
    }
    ~Exclusive() {
        hz_lock_release(lock_);
    }
    Exclusive(const Exclusive &) = delete;
    Exclusive &operator=(const Exclusive &) = delete;

  private:
    struct hz_lock *lock_;
};

/* `count` blocks straight from the shard's pages, making pages as needed. */
inline Blocks take(struct hz_shard *shard, unsigned size_class, uint32_t count) {
    Blocks blocks(count);
    Exclusive exclusive(shard);
    for (uint32_t got = 0; got < count;) {
        got += hz_pages_carve_locked(shard, size_class, blocks.data() + got, count - got, nullptr);
        if (got < count && !hz_page_create_locked(shard, size_class))
            abort();
    }
    return blocks;
}

/* Pushes so many full batches of a class into the depot, of blocks of the calling thread's shard. Returns the number of
   blocks. */
inline uint32_t rest(struct hz_thread_block *self, unsigned size_class, uint32_t batches) {
    uint32_t batch = hz_batch_count(size_class);
    for (uint32_t i = 0; i < batches; i++)
        EXPECT_TRUE(hz_depot_push(self, size_class, take(self->shard, size_class, batch).data(), batch));
    return batches * batch;
}

/* A round of ageing of the depot. */
inline void age_round(struct hz_thread_block *self) {
    hz_age_depot_begin();
    while (hz_age_depot_step(self, 1)) {
    }
}

/* Puts all blocks back into the shard's pages. Returns the number of pages retired. */
inline uint32_t put(struct hz_shard *shard, const Blocks &blocks) {
    uint32_t retired = 0;
    Exclusive exclusive(shard);
    for (void *block : blocks)
        retired += hz_page_put_locked(shard, block);
    return retired;
}

/* `count` of the blocks, from number `from` on. */
inline Blocks part(const Blocks &blocks, size_t from, size_t count) {
    auto first = blocks.begin() + static_cast<ptrdiff_t>(from);
    return {first, first + static_cast<ptrdiff_t>(count)};
}

/* Sends blocks of one class to the shard. */
inline void send(struct hz_shard *shard, Blocks blocks) {
    if (!blocks.empty())
        hz_shard_send(self(), shard, hz_pagetag_class(blocks[0]), blocks.data(), static_cast<uint32_t>(blocks.size()));
}

/* The calling thread was counted as a thread of the shard, and no longer is. */
inline void leave(struct hz_shard *shard) {
    hz_sent_leave(self(), shard);
    hz_shard_release(shard);
}

inline size_t retire_all(struct hz_shard *shard) {
    size_t retired = 0;
    Exclusive exclusive(shard);
    for (unsigned size_class = 1; size_class < class_count; size_class++)
        retired += hz_pages_retire_all_locked(shard, size_class);
    return retired;
}

/* Makes the calling thread a thread of another shard, which the test has claimed. */
class ThreadOf {
  public:
    ThreadOf(struct hz_thread_block *self, struct hz_shard *shard) : self_(self), own_(self->shard) {
        set(shard);
    }
    ~ThreadOf() {
        set(own_);
    }
    ThreadOf(const ThreadOf &) = delete;
    ThreadOf &operator=(const ThreadOf &) = delete;

  private:
    void set(struct hz_shard *shard) {
        self_->shard = shard;
        self_->owner = static_cast<uint8_t>(shard->index);
        self_->owner_expected = self_->owner;
    }
    struct hz_thread_block *self_;
    struct hz_shard *own_;
};

/* Up to `want` blocks, refilled by the calling thread as a thread of the shard. */
inline Blocks refill(struct hz_shard *shard, unsigned size_class, uint32_t want) {
    struct hz_thread_block *self = unit::self();
    ThreadOf as_owner(self, shard);
    Blocks blocks(want);
    blocks.resize(hz_supply_refill(self, size_class, blocks.data(), want, nullptr));
    return blocks;
}

/* Puts everything that was sent to the shard into its pages. */
inline void drain(struct hz_shard *shard, unsigned size_class) {
    hz_sent_drain(unit::self(), shard, size_class);
}

struct SentCount {
    unsigned shard;
    unsigned size_class;
    uint32_t blocks;
};

/* Blocks that were sent to the shard and not drained yet, wherever this engine keeps them: in mailbox and carry, or in
   the pages' remote lists. */
inline uint32_t waiting(struct hz_shard *shard, unsigned size_class) {
    SentCount sent = {shard->index, size_class, 0};
    hz_pages_walk(
        [](void *context, struct hz_page *page) {
            auto *at = static_cast<SentCount *>(context);
            if (hz_load_rlx(&page->shard) == at->shard && hz_load_acq(&page->size_class) == at->size_class)
                at->blocks += hz_sent_count_in_page(page);
        },
        &sent);
    return sent.blocks + hz_sent_count(shard, size_class);
}

struct PageCount {
    unsigned shard;
    size_t pages;
};

inline size_t pages_of(struct hz_shard *shard) {
    PageCount count = {shard->index, 0};
    hz_pages_walk(
        [](void *context, struct hz_page *page) {
            auto *at = static_cast<PageCount *>(context);
            at->pages += hz_load_rlx(&page->shard) == at->shard;
        },
        &count);
    return count.pages;
}

/* The test claims a shard that has no other thread, and leaves no pages behind in it. */
class OwnShard : public testing::Test {
  protected:
    void SetUp() override {
        self_ = unit::self();
        hz_heap_purge(); /* so that the shard cannot adopt pages */
        shard_ = hz_shard_claim();
        ASSERT_NE(shard_, nullptr);
        ASSERT_NE(shard_, self_->shard);
        ASSERT_EQ(hz_load_rlx(&shard_->threads), 1U);
    }
    void TearDown() override {
        for (unsigned size_class = 1; size_class < class_count; size_class++)
            EXPECT_EQ(waiting(shard_, size_class), 0U) << "class " << size_class;
        retire_all(shard_);
        EXPECT_EQ(pages_of(shard_), 0U) << "a block did not come home";
        leave(shard_);
    }
    struct hz_thread_block *self_ = nullptr;
    struct hz_shard *shard_ = nullptr;
};

} // namespace unit

#endif
