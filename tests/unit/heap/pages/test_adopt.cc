/* Shards adopt pages of shards without threads. Blocks on their way to the old shard still come home. */
#include "stress/children.h"
#include "unit/heap/fixture.h"

#include <algorithm>
#include <memory>

namespace {

using children::require;
using unit::Blocks;
using unit::Exclusive;

class Adopt : public testing::Test {
  protected:
    void SetUp() override {
        self_ = unit::self();
        hz_heap_purge();
        own_ = self_->shard;
        left_ = hz_shard_claim();
        ASSERT_NE(left_, own_);
    }
    void TearDown() override {
        hz_heap_purge(); /* drains and retires everything */
        for (unsigned index = 0; hz_shard_get(index) != nullptr; index++)
            EXPECT_EQ(unit::pages_of(hz_shard_get(index)), 0U) << "a block of shard " << index << " did not come home";
        EXPECT_EQ(hz_load_rlx(&left_->threads), 0U);
        EXPECT_EQ(support::live_bytes(), 0U);
    }
    void leave() {
        unit::leave(left_);
        ASSERT_EQ(hz_load_rlx(&left_->threads), 0U);
    }
    /* Takes `count` blocks of one page of left_, then gives up left_, which keeps the page. Returns the blocks. */
    Blocks leave_page(unsigned size_class, uint32_t count) {
        Blocks blocks = unit::take(left_, size_class, count);
        leave();
        return blocks;
    }
    struct hz_counters counters() {
        return self_->counters;
    }
    void put_home(const Blocks &blocks) {
        for (void *block : blocks)
            hz_block_put(self_, block);
    }
    static uint32_t free_count(const void *block) {
        return hz_page_of(block)->free_count;
    }
    struct hz_thread_block *self_ = nullptr;
    struct hz_shard *own_ = nullptr;
    struct hz_shard *left_ = nullptr; /* claimed by the test until leave() */
};

TEST_F(Adopt, PagesOfAShardWithoutThreadsAreTakenOver) {
    std::vector<Blocks> out;
    for (unsigned size_class : unit::some_classes())
        out.push_back(unit::take(left_, size_class, 2));
    leave();
    size_t at = 0;
    for (unsigned size_class : unit::some_classes()) {
        SCOPED_TRACE("class " + std::to_string(size_class));
        Blocks &blocks = out[at++];
        struct hz_page *page = hz_page_of(blocks[0]);
        ASSERT_EQ(unit::partial(left_, size_class), page);
        struct hz_counters before = counters();
        EXPECT_EQ(hz_pages_adopt(self_, size_class), 1U);
        struct hz_counters after = counters();
        EXPECT_EQ(after.page_adopt - before.page_adopt, 1U);
        EXPECT_EQ(after.ls_acq_steal - before.ls_acq_steal, 1U) << "adoption takes the old shard's lock";
        EXPECT_EQ(after.ls_acq_self - before.ls_acq_self, 1U) << "and the new shard's lock";
        EXPECT_EQ(after.ls_acq_miss, before.ls_acq_miss) << "no other thread held either lock";
        EXPECT_EQ(page->shard, own_->index);
        EXPECT_EQ(page->list_state, HZ_PAGE_LISTED);
        EXPECT_EQ(unit::partial(own_, size_class), page);
        EXPECT_EQ(unit::partial(left_, size_class), nullptr);
        for (unsigned i = 0; i < page->run_pages; i++)
            ASSERT_EQ(hz_pagetag_owner(page->start + i * unit::page_bytes), own_->index)
                << "page " << i << " of the run";
        EXPECT_EQ(hz_pagetag_class(blocks[0]), size_class);
        EXPECT_EQ(hz_pages_adopt(self_, size_class), 0U) << "a page is adopted once";
        EXPECT_EQ(counters().page_adopt, after.page_adopt);
        Blocks given(page->free_count);
        ASSERT_EQ(hz_supply_refill(self_, size_class, given.data(), page->free_count, nullptr), given.size());
        for (void *block : given)
            ASSERT_EQ(hz_page_of(block), page) << "a refill takes blocks of the adopted page";
        EXPECT_EQ(counters().page_create, before.page_create);
        put_home(given);
        put_home(blocks);
        EXPECT_EQ(page->free_count, page->capacity);
    }
}

TEST_F(Adopt, ManyPagesTakeSeveralCalls) {
    constexpr uint32_t pages = 11;
    unsigned size_class = unit::largest_short;
    Blocks blocks = unit::take(left_, size_class, 1);
    uint32_t capacity = hz_page_of(blocks[0])->capacity;
    Blocks more = unit::take(left_, size_class, pages * capacity - 1);
    blocks.insert(blocks.end(), more.begin(), more.end());
    for (uint32_t page = 0; page < pages; page++) /* one block of each page */
        unit::put(left_, {blocks[size_t{page} * capacity]});
    leave();
    uint32_t adopted = 0;
    for (uint32_t count; (count = hz_pages_adopt(self_, size_class)) > 0; adopted += count)
        ASSERT_EQ(unit::pages_of(own_), adopted + count);
    EXPECT_EQ(adopted, pages);
    EXPECT_EQ(unit::pages_of(left_), 0U);
    for (size_t i = 0; i < blocks.size(); i++)
        if (i % capacity != 0)
            put_home({blocks[i]});
}

TEST_F(Adopt, RefillAdoptsBeforeItMakesAPage) {
    for (unsigned size_class : unit::some_classes()) {
        Blocks out = unit::take(left_, size_class, 1);
        leave();
        struct hz_counters before = counters();
        void *block = t_malloc(hz_class_bytes(size_class));
        EXPECT_EQ(hz_page_of(block), hz_page_of(out[0])) << "class " << size_class;
        EXPECT_EQ(counters().page_create, before.page_create);
        EXPECT_EQ(counters().page_adopt - before.page_adopt, 1U);
        EXPECT_EQ(counters().refill_page - before.refill_page, 1U);
        t_free(block);
        hz_thread_flush(self_);
        put_home(out);
        left_ = hz_shard_claim();
    }
    leave();
}

TEST_F(Adopt, NotFromAShardWithThreads) {
    Blocks out = unit::take(left_, 7, 2);
    struct hz_page *page = hz_page_of(out[0]);
    struct hz_counters before = counters();
    EXPECT_EQ(hz_pages_adopt(self_, 7), 0U);
    EXPECT_EQ(counters().page_adopt, before.page_adopt);
    EXPECT_EQ(counters().ls_acq_steal, before.ls_acq_steal)
        << "a shard with threads is skipped without taking its lock";
    EXPECT_EQ(page->shard, left_->index);
    EXPECT_EQ(unit::partial(left_, 7), page);
    Blocks mine = unit::refill(own_, 7, 1);
    EXPECT_NE(hz_page_of(mine[0]), page);
    put_home(mine);
    put_home(out);
    leave();
}

TEST_F(Adopt, NotItsOwn) {
    Blocks mine = unit::take(own_, 7, 1);
    EXPECT_EQ(hz_pages_adopt(self_, 7), 0U);
    put_home(mine);
    leave();
}

TEST_F(Adopt, PagesWithoutFreeBlocksStay) {
    Blocks all = unit::take(left_, 7, 1);
    Blocks rest = unit::take(left_, 7, free_count(all[0]));
    all.insert(all.end(), rest.begin(), rest.end());
    leave();
    EXPECT_EQ(hz_pages_adopt(self_, 7), 0U);
    EXPECT_EQ(hz_page_of(all[0])->shard, left_->index);
    put_home({all.back()});
    all.pop_back();
    EXPECT_EQ(hz_pages_adopt(self_, 7), 1U) << "now the page has a free block";
    put_home(all);
}

TEST_F(Adopt, FreePagesGoToTheArenaInstead) {
    Blocks one = unit::take(left_, 7, 1);
    leave();
    put_home(one);
    ASSERT_EQ(unit::pages_of(left_), 1U);
    uint64_t retired = counters().page_retire;
    EXPECT_EQ(hz_pages_adopt(self_, 7), 0U);
    EXPECT_EQ(unit::pages_of(left_), 0U);
    EXPECT_EQ(counters().page_retire - retired, 1U);
}

/* A sender was late, so the shard's threads ended before they could drain its list. */
TEST_F(Adopt, BlocksSentToTheOldShardGoIntoItsPagesFirst) {
    Blocks all = unit::take(left_, 7, 1);
    Blocks rest = unit::take(left_, 7, free_count(all[0]));
    unit::send(left_, rest);
    ASSERT_EQ(unit::waiting(left_, 7), unit::waits(static_cast<uint32_t>(rest.size())));
    ASSERT_EQ(unit::partial(left_, 7) == nullptr, unit::mail() != unit::Mail::none);
    hz_store_rlx(&left_->threads, 0);
    EXPECT_EQ(hz_pages_adopt(self_, 7), 1U);
    EXPECT_EQ(unit::waiting(left_, 7) + unit::waiting(own_, 7), 0U);
    EXPECT_EQ(free_count(all[0]), rest.size());
    put_home(all);
}

/* ---- blocks that were on their way to the old shard ---- */

class Strays : public Adopt {
  protected:
    static constexpr unsigned size_class = 7;
    static constexpr uint32_t count = 6;
    void SetUp() override {
        Adopt::SetUp();
        out_ = leave_page(size_class, count);
        ASSERT_EQ(hz_pages_adopt(self_, size_class), 1U);
        page_ = hz_page_of(out_[0]);
        capacity_ = page_->capacity;
        ASSERT_EQ(page_->free_count, capacity_ - count);
    }
    void expect_all_home() {
        EXPECT_EQ(page_->free_count, capacity_);
        EXPECT_EQ(page_->shard, own_->index);
        EXPECT_EQ(unit::waiting(left_, size_class), 0U);
        EXPECT_EQ(unit::retire_all(left_), 0U);
        EXPECT_EQ(unit::retire_all(own_), 1U);
    }
    /* The old shard gets a thread again. */
    void claim_left() {
        ASSERT_EQ(hz_shard_claim(), left_);
    }
    Blocks out_; /* blocks of a page that another shard has adopted */
    struct hz_page *page_ = nullptr;
    uint32_t capacity_ = 0;
};

TEST_F(Strays, SentToTheOldShardWithoutThreads) {
    unit::send(left_, out_);
    expect_all_home();
}

TEST_F(Strays, SentToTheOldShardWithThreads) {
    claim_left();
    unit::send(left_, out_);
    EXPECT_EQ(page_->free_count, capacity_ - unit::waits(count));
    unit::drain(left_, size_class);
    unit::leave(left_);
    expect_all_home();
}

TEST_F(Strays, DrainedWhenTheOldShardsLastThreadEnds) {
    claim_left();
    unit::send(left_, out_);
    unit::leave(left_);
    expect_all_home();
}

TEST_F(Strays, DrainedByThePurger) {
    claim_left();
    unit::send(left_, out_);
    hz_heap_purge();
    EXPECT_EQ(unit::pages_of(left_) + unit::pages_of(own_), 0U) << "the purge retires the page too";
    unit::leave(left_);
}

TEST_F(Strays, PutByAThreadThatBelievesThemItsOwn) {
    claim_left();
    {
        unit::ThreadOf as_left(self_, left_);
        hz_shard_put(self_, left_, out_.data(), count);
    }
    unit::leave(left_);
    expect_all_home();
}

TEST_F(Strays, GroupedByTheNewOwner) {
    /* a new thread gets the old shard */
    std::thread([&] {
        struct hz_thread_block *other = unit::self();
        EXPECT_EQ(other->shard, left_);
        hz_blocks_send(other, out_.data(), count);
        EXPECT_EQ(unit::waiting(own_, size_class), unit::waits(count)) << "the blocks wait for the page's new owner";
    }).join();
    unit::drain(own_, size_class);
    expect_all_home();
}

TEST_F(Strays, FreedByAThreadOfTheOldShard) {
    std::thread([&] {
        unit::self();
        for (void *block : out_)
            hz_heap_free(block);
    }).join();
    unit::drain(own_, size_class);
    expect_all_home();
}

/* ---- pages between two shards ---- */

TEST_F(Adopt, MovingPagesAreNeitherListedNorRetired) {
    for (unsigned size_class : unit::some_classes()) {
        SCOPED_TRACE("class " + std::to_string(size_class));
        Blocks other = unit::take(own_, size_class, 1); /* so that the page is not the last of its class */
        Blocks blocks = unit::take(left_, size_class, 3);
        struct hz_page *page = hz_page_of(blocks[0]);
        {
            Exclusive exclusive(left_);
            hz_page_depart_locked(left_, page, own_);
            EXPECT_EQ(unit::partial(left_, size_class), nullptr);
            uint32_t retired = 0;
            EXPECT_EQ(hz_pages_put_locked(left_, blocks.data(), 1, &retired), 1U)
                << "the page belongs to the other shard already";
        }
        EXPECT_EQ(page->list_state, HZ_PAGE_MOVING);
        EXPECT_EQ(page->shard, own_->index);
        put_home({blocks[0]});
        put_home({blocks[1]});
        EXPECT_EQ(unit::put(own_, {blocks[2]}), 0U) << "the last block is home";
        EXPECT_EQ(page->free_count, page->capacity);
        EXPECT_EQ(page->list_state, HZ_PAGE_MOVING);
        EXPECT_EQ(page->size_class, size_class) << "not retired";
        EXPECT_EQ(unit::retire_all(own_), 0U) << "not even when every listed page is retired";
        EXPECT_EQ(unit::partial(own_, size_class), hz_page_of(other[0]));
        EXPECT_EQ(hz_page_of(other[0])->next, nullptr);
        {
            Exclusive exclusive(own_);
            EXPECT_EQ(hz_page_arrive_locked(own_, page), 1U)
                << "now the page is retired, since its class has another one";
            EXPECT_EQ(unit::partial(own_, size_class), hz_page_of(other[0]));
        }
        EXPECT_EQ(hz_pagetag_class(blocks[0]), static_cast<unsigned>(HZ_CLASS_NONE));
        put_home(other);
        EXPECT_EQ(unit::retire_all(own_), 1U);
    }
    leave();
}

TEST_F(Adopt, ArrivingPagesAreListedIfTheyHaveFreeBlocks) {
    Blocks blocks = unit::take(left_, 7, 3);
    struct hz_page *page = hz_page_of(blocks[0]);
    {
        Exclusive exclusive(left_);
        hz_page_depart_locked(left_, page, own_);
    }
    Exclusive exclusive(own_);
    EXPECT_EQ(hz_page_arrive_locked(own_, page), 0U);
    EXPECT_EQ(page->list_state, HZ_PAGE_LISTED);
    EXPECT_EQ(unit::partial(own_, 7), page);
    for (void *block : blocks)
        EXPECT_EQ(hz_page_put_locked(own_, block), 0U) << "the last page of its class stays";
    EXPECT_EQ(hz_pages_retire_all_locked(own_, 7), 1U);
    unit::leave(left_); /* takes no lock, since nothing was sent to the shard */
}

/* ---- a fork in the middle ---- */

/* A thread caught while it adopts a page: the page has departed from its old shard, and the thread waits for the lock
   of its own shard, where the page is to arrive. */
class Mover {
  public:
    void start() { /* must come before the page's shard loses its threads, or this thread would get that shard */
        thread_ = std::thread([this] {
            struct hz_thread_block *self = unit::self();
            shard = self->shard;
            ready_ = true;
            while (!go_)
                std::this_thread::yield();
            adopted = hz_pages_adopt(self, size_class);
        });
        while (!ready_)
            std::this_thread::yield();
    }
    /* Returns when the page is between the shards. A thread other than the mover must hold the lock of the mover's
       shard, which stops the mover there. */
    void move(void *block_in_page, struct hz_shard *from) {
        go_ = true;
        while (hz_pagetag_owner(block_in_page) != shard->index)
            std::this_thread::yield();
        std::thread([from] { Exclusive until_it_has_let_go(from); }).join();
    }
    void join() {
        thread_.join();
    }
    static constexpr unsigned size_class = 7;
    struct hz_shard *shard = nullptr;
    uint32_t adopted = 0;

  private:
    std::thread thread_;
    std::atomic<bool> ready_{false};
    std::atomic<bool> go_{false};
};

/* Run by the child: checks that the page is in order, and that another shard can adopt and retire it. */
int use_settled_page(struct hz_shard *owner, const Blocks &out) {
    struct hz_page *page = hz_page_of(out[0]);
    require(page->list_state == HZ_PAGE_LISTED, "the page is listed");
    require(page->shard == owner->index, "the page belongs to its new owner");
    require(unit::partial(owner, Mover::size_class) == page, "the page is on the new owner's list");
    require(page->next == nullptr, "the page is listed once");
    require(hz_load_rlx(&owner->threads) == 0, "the owner's thread does not exist here");
    require(hz_pages_adopt(unit::self(), Mover::size_class) == 1, "so the page can be adopted");
    for (void *block : out)
        hz_block_put(unit::self(), block);
    require(page->free_count == page->capacity, "all its blocks come home");
    hz_heap_purge();
    require(unit::pages_of(owner) + unit::pages_of(unit::self()->shard) == 0, "the page can be retired");
    return 0;
}

TEST_F(Adopt, ForkWhileAPageIsMoving) {
    Mover mover;
    mover.start();
    Blocks out = leave_page(Mover::size_class, 3);
    {
        Exclusive exclusive(mover.shard); /* held by this thread, so the child repairs nothing else of the shard */
        mover.move(out[0], left_);
        children::expect_good_end(children::start([&] {
            hz_lock_release(&mover.shard->exclusive);
            return use_settled_page(mover.shard, out);
        }));
    }
    mover.join();
    EXPECT_EQ(mover.adopted, 1U);
    put_home(out);
}

TEST_F(Adopt, ForkWhileAPageIsMovingToAShardThatIsHeld) {
    Mover mover;
    mover.start();
    std::atomic<int> step{0};
    std::thread holder([&] {
        Exclusive exclusive(mover.shard);
        step = 1;
        while (step != 2)
            std::this_thread::yield();
    });
    while (step != 1)
        std::this_thread::yield();
    Blocks out = leave_page(Mover::size_class, 3);
    mover.move(out[0], left_);
    children::expect_good_end(children::start([&] { return use_settled_page(mover.shard, out); }));
    step = 2;
    holder.join();
    mover.join();
    EXPECT_EQ(mover.adopted, 1U);
    put_home(out);
}

/* A signal handler interrupts the thread that moves a page, and forks, while another thread of its shard has the lock.
   The child rebuilds the shard's lists, and then its thread goes on with the move. */
TEST_F(Adopt, ForkOfTheMoverItself) {
    Blocks out = leave_page(Mover::size_class, 3);
    struct hz_page *page = hz_page_of(out[0]);
    std::atomic<int> step{0};
    std::thread holder([&] {
        Exclusive exclusive(own_);
        step = 1;
        while (step != 2)
            std::this_thread::yield();
    });
    while (step != 1)
        std::this_thread::yield();
    hz_hooks_enter();
    {
        Exclusive exclusive(left_);
        hz_page_depart_locked(left_, page, own_);
    }
    children::expect_good_end(children::start([&] {
        require(page->list_state == HZ_PAGE_MOVING, "the page waits for its mover");
        {
            Exclusive exclusive(own_);
            require(hz_page_arrive_locked(own_, page) == 0, "the page arrives");
        }
        hz_hooks_leave();
        require(unit::partial(own_, Mover::size_class) == page && page->next == nullptr, "it is listed once");
        put_home(out);
        hz_heap_purge();
        require(unit::pages_of(own_) == 0 && hz_pages_bytes() == 0, "the page can be retired");
        return 0;
    }));
    step = 2;
    holder.join();
    {
        Exclusive exclusive(own_);
        EXPECT_EQ(hz_page_arrive_locked(own_, page), 0U);
    }
    hz_hooks_leave();
    put_home(out);
}

/* ---- many threads at the same time ---- */

const unsigned worked_on[] = {7, HZ_LINEAR_CLASSES, unit::largest_short - 8, HZ_LONG_CLASS_FIRST};

struct Held {
    unsigned size_class;
    Blocks blocks;
};

/* One of the threads below. It holds blocks marked with its index, gets more, sends or puts some in every possible way,
   detaches and attaches, and leaves behind shards that have pages. */
class Worker {
  public:
    Worker(unsigned index, std::atomic<size_t> &wrong) : index_(index), random_(index), wrong_(wrong) {
        for (unsigned size_class : worked_on)
            held_.push_back({size_class, {}});
    }
    uint64_t adopted = 0;

    void get() {
        Held &held = any();
        struct hz_thread_block *self = unit::self();
        Blocks some(16);
        uint64_t before = self->counters.page_adopt;
        some.resize(hz_supply_refill(self, held.size_class, some.data(), static_cast<uint32_t>(random_.between(1, 16)),
                                     nullptr));
        adopted += self->counters.page_adopt - before;
        wrong_ += some.empty();
        keep(held, some);
    }
    void give() {
        Held &held = any();
        Blocks some = let_go(held, random_.between(0, held.blocks.size()));
        if (some.empty())
            return;
        struct hz_thread_block *self = unit::self();
        auto count = static_cast<uint32_t>(some.size());
        switch (random_.below(4)) {
        case 0:
            hz_blocks_send(self, some.data(), count);
            break;
        case 1: /* as a thread does that has read an old tag, which can name any shard */
            hz_shard_send(self, hz_shard_get(static_cast<unsigned>(random_.below(4))), held.size_class, some.data(),
                          count);
            break;
        case 2:
            hz_shard_put(self, self->shard, some.data(), count);
            break;
        default:
            for (void *block : some)
                hz_block_put(self, block);
        }
    }
    /* Claims a shard, takes blocks of its pages, and gives the shard up with the blocks still out. */
    void leave_pages() {
        Held &held = any();
        struct hz_shard *shard = hz_shard_claim();
        Blocks some = unit::take(shard, held.size_class, static_cast<uint32_t>(random_.between(1, 30)));
        unit::leave(shard);
        keep(held, some);
    }
    void turn() {
        switch (random_.below(8)) {
        case 0:
            leave_pages();
            break;
        case 1:
            hz_thread_detach(unit::self());
            break;
        case 2:
        case 3:
        case 4:
            get();
            break;
        default:
            give();
        }
    }
    void give_all() {
        for (Held &held : held_) {
            Blocks all = let_go(held, held.blocks.size());
            hz_blocks_send(unit::self(), all.data(), static_cast<uint32_t>(all.size()));
        }
    }

  private:
    Held &any() {
        return held_[random_.below(held_.size())];
    }
    void keep(Held &held, const Blocks &some) {
        for (void *block : some) {
            static_cast<uint64_t *>(block)[1] = index_;
            held.blocks.push_back(block);
        }
    }
    Blocks let_go(Held &held, size_t count) {
        Blocks some(held.blocks.end() - static_cast<ptrdiff_t>(count), held.blocks.end());
        held.blocks.resize(held.blocks.size() - count);
        for (void *block : some) {
            wrong_ += static_cast<uint64_t *>(block)[1] != index_; /* another thread has the block too */
            static_cast<uint64_t *>(block)[1] = UINT64_MAX;
        }
        return some;
    }
    const uint64_t index_;
    support::Random random_;
    std::vector<Held> held_;
    std::atomic<size_t> &wrong_;
};

TEST_F(Adopt, ThreadsAdoptAndPutAtTheSameTime) {
    constexpr unsigned threads = 4;
    std::atomic<size_t> wrong{0};
    std::atomic<uint64_t> adopted{0};
    unit::Barrier attached(threads + 1);
    unit::Barrier left(threads + 1);
    Blocks out;
    /* once every thread has a shard, leaves pages in a shard without threads, for the first thread to adopt them */
    std::thread leaver([&] {
        attached.wait();
        for (unsigned size_class : worked_on) {
            Blocks some = unit::take(left_, size_class, 2);
            out.insert(out.end(), some.begin(), some.end());
        }
        hz_store_rlx(&left_->threads, 0);
        left.wait();
    });
    unit::together(threads, [&](unsigned index) {
        unit::self();
        attached.wait();
        left.wait();
        Worker worker(index, wrong);
        worker.get();
        for (unsigned i = 0; i < unit::rounds(20000); i++)
            worker.turn();
        worker.give_all();
        adopted += worker.adopted;
    });
    leaver.join();
    EXPECT_EQ(wrong, 0U);
    EXPECT_GT(adopted, 0U);
    put_home(out);
}

} // namespace
