/* Pages: each block is handed out once, aligned, in ring order. A page whose blocks are all home is retired, unless it
   is the shard's last page of that class with free blocks, and its blocks are not long. */
#include "stress/children.h"
#include "unit/heap/fixture.h"

#include <algorithm>
#include <csignal>
#include <random>
#include <set>
#include <utility>

namespace {

using unit::Blocks;
using unit::Exclusive;

class Page : public unit::OwnShard {
  protected:
    struct hz_page *create(unsigned size_class) {
        Exclusive exclusive(shard_);
        EXPECT_TRUE(hz_page_create_locked(shard_, size_class));
        return unit::partial(shard_, size_class);
    }
    /* All free blocks of the shard's pages of the class. */
    Blocks take_all(unsigned size_class) {
        Blocks blocks(1 << 20);
        Exclusive exclusive(shard_);
        blocks.resize(hz_pages_carve_locked(shard_, size_class, blocks.data(), 1 << 20, nullptr));
        return blocks;
    }
    /* In one call. */
    void put_together(Blocks blocks) {
        uint32_t retired = 0;
        Exclusive exclusive(shard_);
        hz_pages_put_locked(shard_, blocks.data(), static_cast<uint32_t>(blocks.size()), &retired);
    }
    /* All blocks of two new pages. */
    std::pair<Blocks, Blocks> two_pages_full(unsigned size_class) {
        create(size_class);
        Blocks first = take_all(size_class);
        create(size_class);
        return {first, take_all(size_class)};
    }
};

/* No page has a larger alignment than its first byte. */
size_t natural_alignment(size_t bytes) {
    return std::min(bytes & (~bytes + 1), unit::page_bytes);
}

TEST_F(Page, EveryClassFillsItsPage) {
    for (unsigned size_class = 1; size_class < unit::class_count; size_class++) {
        SCOPED_TRACE("class " + std::to_string(size_class));
        size_t bytes = hz_class_bytes(size_class);
        struct hz_page *page = create(size_class);
        size_t run_bytes = page->run_pages * unit::page_bytes;
        ASSERT_EQ(page->block_bytes, bytes);
        ASSERT_EQ(page->size_class, size_class);
        ASSERT_EQ(page->free_count, page->capacity);
        ASSERT_EQ(page->list_state, HZ_PAGE_LISTED);
        ASSERT_EQ(page->capacity, run_bytes / bytes);
        ASSERT_LE(run_bytes - page->capacity * bytes, run_bytes / 16) << "more than 1/16 of the run is unused";
        Blocks blocks = take_all(size_class);
        ASSERT_EQ(blocks.size(), page->capacity);
        ASSERT_EQ(page->free_count, 0U);
        ASSERT_EQ(page->list_state, HZ_PAGE_UNLISTED);
        ASSERT_EQ(unit::partial(shard_, size_class), nullptr);
        for (void *block : blocks) {
            ASSERT_TRUE(support::aligned_to(block, natural_alignment(bytes)));
            ASSERT_EQ(hz_page_of(block), page);
            ASSERT_EQ(hz_page_of(static_cast<char *>(block) + bytes - 1), page);
            ASSERT_EQ(hz_pagetag_class(block), size_class);
            ASSERT_EQ(hz_pagetag_owner(block), shard_->index);
        }
        std::sort(blocks.begin(), blocks.end());
        ASSERT_EQ(blocks[0], page->start);
        for (size_t i = 0; i < blocks.size(); i++)
            ASSERT_EQ(blocks[i], page->start + i * bytes) << "a block is missing, or two overlap";
        bool is_kept = !hz_class_is_long(size_class);
        ASSERT_EQ(unit::put(shard_, blocks), is_kept ? 0U : 1U);
        ASSERT_EQ(unit::partial(shard_, size_class), is_kept ? page : nullptr);
        if (is_kept) {
            ASSERT_EQ(page->free_count, page->capacity);
        }
    }
}

TEST_F(Page, HandsOutBlocksInRingOrder) {
    for (unsigned size_class : unit::some_short_and_long_classes()) {
        struct hz_page *page = create(size_class);
        ASSERT_LT(page->rotation, page->capacity);
        for (uint32_t i = 0; i < page->capacity; i++) {
            Blocks one = unit::take(shard_, size_class, 1);
            uint32_t index = (page->rotation + i) % page->capacity;
            ASSERT_EQ(one[0], page->start + size_t{index} * page->block_bytes) << "block " << i;
        }
        char *start = page->start;
        uint32_t capacity = page->capacity; /* the last put may retire the page */
        for (uint32_t i = 0; i < capacity; i++)
            unit::put(shard_, {start + i * hz_class_bytes(size_class)});
    }
}

TEST_F(Page, FirstBlocksDiffer) {
    std::set<uint32_t> begins;
    for (int i = 0; i < 16; i++)
        begins.insert(create(1)->rotation);
    EXPECT_GT(begins.size(), 8U) << "the first blocks of many pages must not share cache sets";
}

TEST_F(Page, LowestBlockIsLastInABatch) {
    struct hz_page *page = create(1);
    Blocks batch = unit::take(shard_, 1, 8);
    for (uint32_t i = 0; i < 8; i++)
        EXPECT_EQ(batch[i], page->start + size_t{(page->rotation + 7 - i) % page->capacity} * page->block_bytes)
            << "a bin hands out the last block first, so addresses must rise";
    unit::put(shard_, batch);
}

TEST_F(Page, TakeGoesOnWithTheNextPage) {
    for (unsigned size_class : unit::some_short_and_long_classes()) {
        uint32_t capacity = create(size_class)->capacity;
        create(size_class);
        Blocks blocks(3 * capacity);
        {
            Exclusive exclusive(shard_);
            EXPECT_EQ(hz_pages_carve_locked(shard_, size_class, blocks.data(), capacity + 1, nullptr), capacity + 1);
            EXPECT_EQ(hz_pages_carve_locked(shard_, size_class, blocks.data() + capacity + 1, 2 * capacity, nullptr),
                      capacity - 1);
            EXPECT_EQ(hz_pages_carve_locked(shard_, size_class, blocks.data(), 1, nullptr), 0U)
                << "carving makes no page";
        }
        blocks.resize(2 * capacity);
        EXPECT_EQ(std::set<void *>(blocks.begin(), blocks.end()).size(), 2 * capacity);
        EXPECT_EQ(unit::put(shard_, blocks), hz_class_is_long(size_class) ? 2U : 1U)
            << "one of two free pages is retired, the last one stays unless its blocks are long";
    }
}

TEST_F(Page, FreedBlocksAreTheOnesTaken) {
    struct hz_page *page = create(2);
    Blocks blocks = take_all(2);
    support::Random random(3);
    Blocks returned;
    for (int i = 0; i < 100; i++) {
        size_t index = random.below(blocks.size());
        returned.push_back(blocks[index]);
        blocks.erase(blocks.begin() + static_cast<ptrdiff_t>(index));
    }
    unit::put(shard_, returned);
    ASSERT_EQ(unit::partial(shard_, 2), page) << "the page is listed again";
    EXPECT_EQ(page->free_count, 100U);
    Blocks again = take_all(2);
    std::sort(again.begin(), again.end());
    std::sort(returned.begin(), returned.end());
    EXPECT_EQ(again, returned);
    blocks.insert(blocks.end(), again.begin(), again.end());
    EXPECT_EQ(blocks.size(), page->capacity);
    unit::put(shard_, blocks);
}

TEST_F(Page, RetiresWhenAllAreHomeButKeepsOne) {
    for (unsigned size_class : unit::some_classes()) {
        SCOPED_TRACE("class " + std::to_string(size_class));
        auto [first, second] = two_pages_full(size_class);
        uint32_t capacity = hz_page_of(first[0])->capacity;
        ASSERT_EQ(second.size(), capacity);
        size_t pages = unit::pages_of(shard_);
        char *start = hz_page_of(first[0])->start;
        EXPECT_EQ(unit::put(shard_, first), 0U) << "the only page with free blocks stays";
        EXPECT_EQ(unit::pages_of(shard_), pages);
        Blocks most(second.begin(), second.end() - 1);
        EXPECT_EQ(unit::put(shard_, most), 0U) << "not all blocks are home";
        EXPECT_EQ(unit::put(shard_, {second.back()}), 1U);
        EXPECT_EQ(unit::pages_of(shard_), pages - 1);
        EXPECT_EQ(hz_pagetag_class(second[0]), static_cast<unsigned>(HZ_CLASS_NONE));
        Exclusive exclusive(shard_);
        EXPECT_EQ(hz_pages_retire_all_locked(shard_, size_class), 1U);
        EXPECT_EQ(unit::partial(shard_, size_class), nullptr);
        EXPECT_EQ(hz_pagetag_class(start), static_cast<unsigned>(HZ_CLASS_NONE)) << "the tag is cleared";
        EXPECT_EQ(hz_pages_retire_all_locked(shard_, size_class), 0U);
    }
}

/* Other classes can use the memory of a long block at once. */
TEST_F(Page, APageOfLongBlocksRetiresEvenIfItIsTheOnlyOne) {
    for (unsigned size_class : unit::some_long_classes()) {
        SCOPED_TRACE("class " + std::to_string(size_class));
        size_t pages = unit::pages_of(shard_);
        Blocks blocks = unit::take(shard_, size_class, 1);
        Blocks more = unit::take(shard_, size_class, hz_page_of(blocks[0])->capacity - 1);
        blocks.insert(blocks.end(), more.begin(), more.end());
        ASSERT_EQ(unit::pages_of(shard_), pages + 1);
        for (size_t i = 0; i < blocks.size(); i++)
            EXPECT_EQ(unit::put(shard_, {blocks[i]}), i + 1 == blocks.size() ? 1U : 0U) << "block " << i;
        EXPECT_EQ(unit::partial(shard_, size_class), nullptr);
        EXPECT_EQ(unit::pages_of(shard_), pages);
        EXPECT_EQ(hz_class_blocks(size_class), 0U);
        for (void *block : blocks)
            EXPECT_EQ(hz_pagetag_class(block), static_cast<unsigned>(HZ_CLASS_NONE)) << "the tags are cleared";
    }
}

TEST_F(Page, PagesWithLiveBlocksAreNotRetired) {
    create(1);
    Blocks one = unit::take(shard_, 1, 1);
    {
        Exclusive exclusive(shard_);
        EXPECT_EQ(hz_pages_retire_all_locked(shard_, 1), 0U);
        EXPECT_NE(unit::partial(shard_, 1), nullptr);
    }
    static_cast<char *>(one[0])[15] = 1;
    EXPECT_EQ(hz_pagetag_class(one[0]), 1U);
    unit::put(shard_, one);
}

/* Runs of 1, 2, 3, ... blocks, in turn from either page. */
Blocks in_runs(const Blocks &first, const Blocks &second) {
    Blocks mixed;
    size_t taken[] = {0, 0};
    for (size_t run = 1; mixed.size() < first.size() + second.size(); run++) {
        const Blocks &from = run % 2 != 0 ? first : second;
        for (size_t i = 0; i < run && taken[run % 2] < from.size(); i++)
            mixed.push_back(from[taken[run % 2]++]);
    }
    return mixed;
}

TEST_F(Page, RunsOfBlocksArePutLikeSingleOnes) {
    for (unsigned size_class : unit::some_classes()) {
        SCOPED_TRACE("class " + std::to_string(size_class));
        auto [first, second] = two_pages_full(size_class);
        uint32_t capacity = hz_page_of(first[0])->capacity;
        struct hz_page *pages[] = {hz_page_of(first[0]), hz_page_of(second[0])};
        Blocks mixed = in_runs(first, second);
        uint32_t retired = 0;
        auto half = static_cast<uint32_t>(mixed.size() / 2);
        Exclusive exclusive(shard_);
        EXPECT_EQ(hz_pages_put_locked(shard_, mixed.data(), half, &retired), 0U) << "no strays";
        EXPECT_EQ(retired, 0U);
        EXPECT_EQ(pages[0]->free_count + pages[1]->free_count, half);
        EXPECT_EQ(shard_->classes[size_class].free_blocks, half);
        for (size_t i = 0; i < mixed.size(); i++)
            ASSERT_EQ(hz_page_has_block_locked(hz_page_of(mixed[i]), mixed[i]), i < half) << i;
        EXPECT_EQ(hz_pages_put_locked(shard_, mixed.data() + half, 2 * capacity - half, &retired), 0U);
        EXPECT_EQ(retired, 1U);
        EXPECT_EQ(shard_->classes[size_class].free_blocks, capacity) << "one of the two was retired";
        EXPECT_EQ(unit::partial(shard_, size_class)->free_count, capacity);
    }
}

/* Many more blocks than one step takes, of several classes and pages, in random order and with strays among them. */
TEST_F(Page, BlocksComeInAnyOrder) {
    const std::vector<unsigned> classes = {2, 5, HZ_MID_CLASS_FIRST};
    struct hz_shard *other = hz_shard_claim();
    const Blocks theirs = unit::take(other, classes[0], 100);
    Blocks mixed = theirs;
    for (unsigned size_class : classes) {
        auto [first, second] = two_pages_full(size_class);
        mixed.insert(mixed.end(), first.begin(), first.end());
        mixed.insert(mixed.end(), second.begin(), second.end());
    }
    std::mt19937 random(1); // NOLINT(cert-msc32-c,cert-msc51-cpp): the same order in each run
    std::shuffle(mixed.begin(), mixed.end(), random);
    const std::set<void *> others(theirs.begin(), theirs.end());
    Blocks strays;
    std::copy_if(mixed.begin(), mixed.end(), std::back_inserter(strays),
                 [&](void *block) { return others.count(block) != 0; });

    uint32_t retired = 0;
    size_t bytes = 0;
    {
        Exclusive exclusive(shard_);
        mixed.resize(hz_pages_put_locked(shard_, mixed.data(), static_cast<uint32_t>(mixed.size()), &retired));
        EXPECT_TRUE(hz_shard_is_valid_locked(shard_));
    }
    EXPECT_EQ(mixed, strays) << "in their order";
    EXPECT_EQ(retired, classes.size()) << "of each class one of two pages";
    for (unsigned size_class : classes) {
        struct hz_page *page = unit::partial(shard_, size_class);
        EXPECT_EQ(page->next, nullptr);
        EXPECT_EQ(page->free_count, page->capacity);
        EXPECT_EQ(shard_->classes[size_class].free_blocks, page->capacity);
        bytes += size_t{page->capacity} * page->block_bytes;
    }
    EXPECT_EQ(shard_->free_bytes + shard_->purged_bytes, bytes);
    unit::put(other, theirs);
    unit::retire_all(other);
    unit::leave(other);
}

TEST_F(Page, BlocksOfOtherShardsAreStrays) {
    struct hz_shard *other = hz_shard_claim();
    Blocks mine = unit::take(shard_, 5, 20);
    Blocks theirs = unit::take(other, 5, 10);
    Blocks mixed;
    for (size_t i = 0; i < 20; i++) {
        mixed.push_back(mine[i]);
        if (i % 2 == 0)
            mixed.push_back(theirs[i / 2]);
    }
    uint32_t retired = 0;
    {
        Exclusive exclusive(shard_);
        mixed.resize(hz_pages_put_locked(shard_, mixed.data(), static_cast<uint32_t>(mixed.size()), &retired));
    }
    struct hz_page *page = hz_page_of(mine[0]);
    EXPECT_EQ(page->free_count, page->capacity);
    EXPECT_EQ(mixed, theirs) << "in their order";
    unit::put(other, theirs);
    unit::retire_all(other);
    EXPECT_EQ(unit::pages_of(other), 0U);
    unit::leave(other);
}

TEST_F(Page, ClassBlocksCountsAllPages) {
    for (unsigned size_class : unit::some_short_and_long_classes()) {
        ASSERT_EQ(hz_class_blocks(size_class), 0U);
        uint32_t capacity = create(size_class)->capacity;
        create(size_class);
        EXPECT_EQ(hz_class_blocks(size_class), 2 * size_t{capacity});
        unit::put(shard_, take_all(size_class));
        EXPECT_EQ(hz_class_blocks(size_class), hz_class_is_long(size_class) ? 0U : capacity)
            << "one of the two was retired, or both";
        unit::retire_all(shard_);
        EXPECT_EQ(hz_class_blocks(size_class), 0U);
    }
}

/* ---- misuse that reaches the page ---- */

TEST_F(Page, BadFreesAreFoundWhenTheBlockIsPut) {
    std::vector<unsigned> classes = unit::some_classes();
    classes.push_back(HZ_LONG_CLASS_FIRST); /* its pages hold several blocks, too */
    for (unsigned size_class : classes) {
        Blocks blocks = unit::take(shard_, size_class, 2);
        unit::put(shard_, {blocks[0]});
        EXPECT_DEATH(unit::put(shard_, {blocks[0]}), "hakozuna: double free of block: 0x");
        char *interior = static_cast<char *>(blocks[1]) + 8;
        EXPECT_DEATH(unit::put(shard_, {interior}), "hakozuna: free of a pointer into the middle of a block: 0x");
        unit::put(shard_, {blocks[1]});
    }
}

TEST_F(Page, BadFreesAreFoundInARun) {
    for (unsigned size_class : unit::some_classes()) {
        Blocks blocks = unit::take(shard_, size_class, 3);
        EXPECT_DEATH(put_together({blocks[0], blocks[1], blocks[0]}), "hakozuna: double free of block: 0x");
        char *interior = static_cast<char *>(blocks[1]) + 8;
        EXPECT_DEATH(put_together({blocks[0], interior, blocks[2]}),
                     "hakozuna: free of a pointer into the middle of a block: 0x");
        EXPECT_DEATH(put_together({interior, blocks[0]}), "hakozuna: free of a pointer into the middle of a block: 0x");
        unit::put(shard_, blocks);
    }
}

TEST_F(Page, ABlockThatIsPutTwiceInAStepIsFound) {
    for (unsigned size_class : unit::some_classes()) {
        create(size_class);
        create(size_class);
        Blocks one = take_all(size_class); /* of both pages, one after the other */
        Blocks twice = one;
        twice.push_back(one[0]); /* both pages may be retired by now, and in large pages another step has begun */
        EXPECT_DEATH(put_together(twice), "hakozuna: double free of block: 0x");
        Blocks between = {one[0], one[one.size() - 1], one[0]};
        EXPECT_DEATH(put_together(between), "hakozuna: double free of block: 0x");
        put_together(one);
        unit::retire_all(shard_);
    }
}

TEST_F(Page, TheSpaceBehindTheLastBlockIsNoBlock) {
    unsigned size_class = 3; /* 48 does not divide the page */
    struct hz_page *page = create(size_class);
    ASSERT_LT(page->capacity * page->block_bytes, page->run_pages * unit::page_bytes);
    Blocks one = unit::take(shard_, size_class, 1);
    char *behind = page->start + size_t{page->capacity} * page->block_bytes;
    EXPECT_DEATH(unit::put(shard_, {behind}), "hakozuna: free of a pointer into the middle of a block: 0x");
    unit::put(shard_, one);
}

/* ---- repair ---- */

TEST_F(Page, RelinkRebuildsTheLists) {
    std::vector<Blocks> held;
    std::vector<unsigned> classes = unit::some_classes();
    classes.push_back(HZ_LONG_CLASS_FIRST); /* its pages hold several blocks, too */
    for (unsigned size_class : classes) {
        create(size_class);
        create(size_class);
        held.push_back(take_all(size_class)); /* all blocks of both pages are out, so both are unlisted */
        create(size_class);
        unit::put(shard_, {held.back()[0]});
    }
    size_t at = 0;
    for (unsigned size_class : classes) {
        struct hz_page *full_again = hz_page_of(held[at][0]);
        hz_store_rlx(&full_again->free_count, 777); /* as an interrupted step might leave it */
        hz_store_rlx(&shard_->classes[size_class].partial, nullptr);
        at++;
    }
    {
        Exclusive exclusive(shard_);
        hz_pages_relink_locked(shard_);
    }
    at = 0;
    for (unsigned size_class : classes) {
        SCOPED_TRACE("class " + std::to_string(size_class));
        Blocks &blocks = held[at++];
        EXPECT_EQ(hz_page_of(blocks[0])->free_count, 1U);
        Blocks rest = take_all(size_class);
        EXPECT_EQ(rest.size(), 1 + blocks.size() / 2) << "the block that came back, and the third page";
        EXPECT_EQ(std::count(rest.begin(), rest.end(), blocks[0]), 1);
        unit::put(shard_, rest);
        unit::put(shard_, Blocks(blocks.begin() + 1, blocks.end()));
    }
}

TEST_F(Page, RelinkLeavesOtherShardsAlone) {
    struct hz_shard *other = hz_shard_claim();
    Blocks theirs = unit::take(other, 1, 10);
    struct hz_page *page = unit::partial(other, 1);
    create(1);
    {
        Exclusive exclusive(shard_);
        hz_pages_relink_locked(shard_);
        EXPECT_NE(unit::partial(shard_, 1), page);
        EXPECT_EQ(unit::partial(shard_, 1)->next, nullptr);
    }
    EXPECT_EQ(unit::partial(other, 1), page);
    unit::put(other, theirs);
    unit::retire_all(other);
    unit::leave(other);
}

} // namespace
