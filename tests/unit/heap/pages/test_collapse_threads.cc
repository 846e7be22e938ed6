/* Threads go on using units while another thread collapses them into huge pages. */
#include "stress/blocks.h"
#include "unit/heap/pages/collapse_fixture.h"

#include <atomic>

namespace {

using support::MiB;
using unit::Blocks;
using unit::Collapse;

/* The blocks of a thread that uses them while another thread collapses their units. */
class Churn {
  public:
    Churn(size_t size, uint64_t seed) : size_(size), random_(seed) {
    }
    void fill(size_t bytes) {
        for (size_t got = 0; got < bytes; got += size_)
            blocks_.push_back(blocks::make(size_, random_.next()));
    }
    /* Frees three in eight blocks, chosen at random, so that no page is full any more. */
    void thin() {
        for (size_t i = 0; i < blocks_.size(); i++)
            if (random_.below(8) < 3)
                free_at(i);
    }
    /* Frees blocks that were allocated one after the other, and allocates as many again. With `purge`, what is free
       goes back to the OS meanwhile. */
    void step(bool purge) {
        size_t count = blocks_.size() / 16;
        size_t first = random_.below(blocks_.size() - count);
        std::vector<size_t> freed;
        for (size_t i = first; i < first + count; i++)
            if (blocks_[i] != nullptr) {
                free_at(i);
                freed.push_back(i);
            }
        if (purge)
            hz_heap_purge();
        for (size_t i : freed)
            blocks_[i] = blocks::make(size_, random_.next());
    }
    void end() {
        for (size_t i = 0; i < blocks_.size(); i++)
            free_at(i);
    }
    size_t damaged() const {
        return damaged_;
    }

  private:
    void free_at(size_t index) {
        damaged_ += !blocks::drop(blocks_[index]);
        blocks_[index] = nullptr;
    }
    size_t size_;
    size_t damaged_ = 0;
    support::Random random_;
    Blocks blocks_;
};

/* One thread's units are full, and are collapsed. The other's are not, so the collapsing thread looks at them again and
   again while they change and go back in part. */
TEST_F(Collapse, ThreadsUseTheUnitsMeanwhile) {
    constexpr size_t live_bytes = 12 * MiB; /* of each of the two */
    size_t units = 0;
    for (unsigned round = 0; round < unit::rounds(2); round++) {
        Churn full(1024, round);
        Churn loose(64 + round * 48, round + 100);
        std::atomic<bool> is_over{false};
        unit::Barrier one_filled(3);
        unit::Barrier both_filled(3);
        unit::together(3, [&](unsigned index) {
            Churn &mine = index == 0 ? full : loose;
            if (index == 0)
                mine.fill(live_bytes);
            one_filled.wait(); /* so a unit has blocks of one thread only */
            if (index == 1) {
                mine.fill(live_bytes);
                mine.thin();
            }
            both_filled.wait();
            for (unsigned steps = 0; index < 2 && !is_over; steps++)
                mine.step(index == 1 && steps % 8 == 0);
            if (index < 2) {
                mine.end();
                return;
            }
            become_dense();
            size_t before = collapsed();
            auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
            while (std::chrono::steady_clock::now() < end)
                (void)hz_collapse(unit::self());
            units += collapsed() - before;
            is_over = true;
        });
        EXPECT_EQ(full.damaged() + loose.damaged(), 0U);
        become_sparse();
    }
    EXPECT_GT(units, 0U);
}

} // namespace
