/* Zones: one against a map of what must be in it, one that many threads share, and zones that pass between threads. */
#include "blocks.h"
#include "children.h"
#include "threads.h"

#include <atomic>
#include <gtest/gtest.h>
#include <map>
#include <thread>

namespace {

using namespace support;
using children::require;

class Zones : public testing::Test {
  protected:
    void SetUp() override {
        if (t_table.zone_create_fn == nullptr)
            GTEST_SKIP() << "hz_zone_create does not exist here";
    }
};

struct hz_zone *zone_make() {
    struct hz_zone *zone = t_table.zone_create_fn();
    require(zone != nullptr, "a zone can be made");
    return zone;
}

struct hz_zone_stats stats_of(struct hz_zone *zone) {
    struct hz_zone_stats stats = {};
    require(t_table.zone_stats_get_fn(zone, &stats, sizeof(stats)) == 0, "a zone has figures");
    return stats;
}

/* Mostly small, now and then of a size without a cursor, or large. */
size_t pick_size(Random &random) {
    switch (random.below(100)) {
    case 0:
        return random.between(64 * KiB, 400 * KiB);
    case 1:
    case 2:
    case 3:
        return random.between(8 * KiB, 60 * KiB);
    default:
        return random.below(4) == 0 ? random.between(8, 8 * KiB) : random.between(8, 300);
    }
}

void *make_in(struct hz_zone *zone, size_t size, uint64_t seed) {
    void *block = t_table.zone_malloc_fn(zone, size);
    require(block != nullptr, "a block can be allocated", size);
    blocks::stamp(block, size, seed);
    return block;
}

/* A zone, what must be in it, and threads that free. */
class Mirror {
  public:
    explicit Mirror(uint64_t seed) : random_(seed), zone_(zone_make()) {
        for (std::thread &freer : freers_)
            freer = std::thread([this] {
                while (void *block = queue_.pop()) {
                    require(blocks::drop(block), "a block holds what was written to it");
                    freed_++;
                }
            });
    }
    ~Mirror() {
        queue_.close();
        for (std::thread &freer : freers_)
            freer.join();
        t_table.zone_destroy_fn(zone_);
    }
    Mirror(const Mirror &) = delete;
    Mirror &operator=(const Mirror &) = delete;

    void step() {
        unsigned what = static_cast<unsigned>(random_.below(1000));
        if (what < 520)
            allocate();
        else if (what < 960)
            free_one();
        else if (what < 980)
            resize_one();
        else if (what < 997)
            compare();
        else
            begin_anew();
    }
    void compare() {
        while (freed_ < sent_)
            std::this_thread::yield();
        size_t bytes = 0;
        for (const auto &[block, size] : live_)
            bytes += support::taken_by(block, t_usable_size(block) > 64 * support::KiB);
        struct hz_zone_stats now = stats_of(zone_);
        require(now.live_blocks == live_.size(), "the zone counts its blocks", now.live_blocks);
        require(now.live_bytes == bytes, "the zone counts their bytes", now.live_bytes);
        require(now.held_bytes >= now.live_bytes + now.free_bytes, "the zone's pages hold them", now.held_bytes);
    }

  private:
    void allocate() {
        size_t size = pick_size(random_);
        void *block = nullptr;
        size_t alignment = 1;
        switch (random_.below(10)) {
        case 0:
            block = t_table.zone_calloc_fn(zone_, 1, size);
            require(block != nullptr && is_zero(block, size), "calloc gives zeros", size);
            break;
        case 1:
            alignment = size_t{1} << random_.below(13);
            block = t_table.zone_aligned_alloc_fn(zone_, alignment, size);
            break;
        default:
            block = t_table.zone_malloc_fn(zone_, size);
        }
        require(block != nullptr, "a block can be allocated", size);
        require(aligned_to(block, alignment), "a block is aligned", alignment);
        require(t_table.zone_of_fn(block) == zone_, "a block is its zone's");
        blocks::stamp(block, size, random_.next());
        enter(block, size);
    }
    /* No two blocks overlap. */
    void enter(void *block, size_t size) {
        auto next = live_.lower_bound(block);
        require(next == live_.end() || static_cast<char *>(block) + size <= next->first, "the next block is behind");
        if (next != live_.begin()) {
            auto before = std::prev(next);
            require(static_cast<char *>(before->first) + before->second <= block, "the block before ends before");
        }
        live_[block] = size;
    }
    std::map<void *, size_t>::iterator pick() {
        auto found = live_.lower_bound(reinterpret_cast<void *>(random_.between(low(), high())));
        return found != live_.end() ? found : live_.begin();
    }
    uintptr_t low() const {
        return reinterpret_cast<uintptr_t>(live_.begin()->first);
    }
    uintptr_t high() const {
        return reinterpret_cast<uintptr_t>(live_.rbegin()->first);
    }
    void free_one() {
        if (live_.empty())
            return;
        auto chosen = pick();
        void *block = chosen->first;
        live_.erase(chosen);
        if (random_.below(2) == 0) {
            require(blocks::drop(block), "a block holds what was written to it");
            return;
        }
        sent_++;
        queue_.push(block);
    }
    void resize_one() {
        if (live_.empty())
            return;
        auto chosen = pick();
        void *block = chosen->first;
        size_t size = std::max(pick_size(random_), size_t{blocks::least_size});
        require(blocks::intact(block), "a block holds what was written to it");
        live_.erase(chosen);
        block = t_realloc(block, size);
        require(block != nullptr && t_table.zone_of_fn(block) == zone_, "a resized block stays in its zone", size);
        blocks::stamp(block, size, random_.next());
        enter(block, size);
    }
    void begin_anew() {
        compare();
        for (const auto &[block, size] : live_)
            require(blocks::intact(block), "a block holds what was written to it");
        live_.clear();
        if (random_.below(3) == 0)
            t_table.purge_fn();
        t_table.zone_destroy_fn(zone_);
        zone_ = zone_make();
        compare();
    }

    Random random_;
    struct hz_zone *zone_;
    std::map<void *, size_t> live_;
    threads::Queue<64> queue_;
    size_t sent_ = 0;
    std::atomic<size_t> freed_{0};
    std::thread freers_[2];
};

TEST_F(Zones, AgreeWithAMap) {
    for (uint64_t seed = 1; seed <= 3; seed++) {
        Mirror mirror(seed);
        for (size_t i = 0; i < (sanitized ? 8000 : 15000); i++)
            mirror.step();
        mirror.compare();
    }
}

/* Threads take from one zone all at once, and free what others took. One asks and purges all the time. */
TEST_F(Zones, ThreadsShareOne) {
    constexpr size_t slots = 256;
    struct hz_zone *zone = zone_make();
    static std::atomic<void *> exchange[slots];
    std::atomic<bool> stop{false};
    std::thread asking([&] {
        while (!stop) {
            struct hz_zone_stats now = stats_of(zone);
            require(now.held_bytes >= now.live_bytes + now.free_bytes, "the zone's pages hold them", now.held_bytes);
            t_table.purge_fn();
            std::this_thread::yield();
        }
    });
    std::vector<std::thread> takers;
    for (uint64_t seed = 0; seed < 4; seed++)
        takers.emplace_back([zone, seed] {
            Random random(seed);
            for (size_t i = 0; i < (sanitized ? 10000 : 25000); i++) {
                void *block = make_in(zone, pick_size(random), seed);
                block = exchange[random.below(slots)].exchange(block);
                if (block != nullptr)
                    require(blocks::drop(block), "a block holds what was written to it");
            }
        });
    for (std::thread &taker : takers)
        taker.join();
    stop = true;
    asking.join();
    size_t left = 0;
    for (std::atomic<void *> &slot : exchange)
        left += slot.exchange(nullptr) != nullptr;
    EXPECT_EQ(stats_of(zone).live_blocks, left);
    t_table.zone_destroy_fn(zone);
}

/* A zone that one thread begins to fill, and its blocks. */
struct Request {
    struct hz_zone *zone;
    std::vector<void *> held;
};

void fill_request(Request *request, Random &random, size_t count) {
    for (size_t i = 0; i < count; i++) {
        request->held.push_back(make_in(request->zone, pick_size(random), random.next()));
        if (random.below(5) == 0) {
            size_t freed = random.below(request->held.size());
            std::swap(request->held[freed], request->held.back());
            require(blocks::drop(request->held.back()), "a block holds what was written to it");
            request->held.pop_back();
        }
    }
}

void end_request(Request *request) {
    require(stats_of(request->zone).live_blocks == request->held.size(), "the zone counts its blocks");
    for (void *block : request->held)
        require(blocks::intact(block), "a block holds what was written to it");
    t_table.zone_destroy_fn(request->zone);
    delete request;
}

TEST_F(Zones, PassFromThreadToThread) {
    constexpr size_t stations = 3;
    size_t live = live_bytes();
    {
        threads::Queue<8, Request *> queues[stations];
        std::vector<std::thread> workers;
        for (size_t station = 0; station < stations; station++)
            workers.emplace_back([&, station] {
                Random random(station);
                while (Request *request = queues[station].pop()) {
                    fill_request(request, random, random.below(200));
                    if (station + 1 < stations)
                        queues[station + 1].push(request);
                    else
                        end_request(request);
                }
                if (station + 1 < stations)
                    queues[station + 1].close();
            });
        Random random(99);
        for (size_t i = 0; i < (sanitized ? 200 : 600); i++) {
            auto *request = new Request{zone_make(), {}};
            fill_request(request, random, random.below(20));
            queues[0].push(request);
        }
        queues[0].close();
        for (std::thread &worker : workers)
            worker.join();
    }
    EXPECT_LE(live_bytes(), live + (t_system ? 256 * KiB : 0));
}

} // namespace
