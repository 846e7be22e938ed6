/* The heap profile is switched on and off while threads run. In children, since a process has one profile. */
#include "stress/blocks.h"
#include "stress/children.h"
#include "unit/heap/fixture.h"
#include "unit/heap/worker.h"

#include <atomic>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

using children::require;
using unit::Worker;

constexpr uint64_t rate = 1; /* each block is sampled */

template <typename Body> void waiting(Body body) {
    children::expect_good_end(children::start([&] {
        require(hz_profile_prepare(rate), "there is memory for the profile");
        body();
        return 0;
    }));
}

uint64_t sampled_blocks() {
    uint64_t count = 0;
    for (uint32_t number = 1; number <= hz_profile_site_count(); number++)
        count += hz_load_rlx(&hz_profile_site_at(number)->allocated_blocks);
    return count;
}

void use(size_t size) {
    void *block = blocks::make(size, 1);
    require(block != nullptr && blocks::drop(block), "a block holds what was written to it");
}

void use_many() {
    for (size_t size = 16; size < 200000; size += size / 2)
        use(size);
}

TEST(Sample, OffUntilItBegins) {
    waiting([] {
        use_many();
        require(hz_profile_rate() == 0 && !hz_sampling_is_on() && sampled_blocks() == 0, "nothing is sampled");
        require(hz_sample_begin(HZ_SAMPLE_FOR_GOOD) == 0, "no thread is left out");
        require(hz_sampler_is_on(unit::self()), "the caller begins at once");
        use(100);
        require(sampled_blocks() == 1, "each block");
        require(hz_sample_end() == 0 && !hz_sampler_is_on(unit::self()), "and ends at once");
        uint64_t before = sampled_blocks();
        use_many();
        require(sampled_blocks() == before && hz_profile_rate() == rate, "what was sampled stays");
    });
}

TEST(Sample, AThreadThatSleepsFollowsWhenItAllocates) {
    waiting([] {
        Worker worker;
        worker.run(use_many);
        require(hz_sample_begin(HZ_SAMPLE_FOR_GOOD) == 0, "it is reached");
        worker.run([] { use(100); });
        require(sampled_blocks() == 1, "its first block is sampled");
        require(hz_sample_end() == 0, "it is reached");
        worker.run(use_many);
        require(sampled_blocks() == 1, "and no more");
    });
}

TEST(Sample, EndsWhenItsTimeIsOver) {
    waiting([] {
        require(hz_sample_look() == UINT64_MAX, "nothing is due");
        require(hz_sample_begin(50) == 0 && hz_sample_begin(1) == 0, "the longer one counts");
        uint64_t due = hz_sample_look();
        require(due != UINT64_MAX && hz_sampling_is_on(), "it is on until then");
        while (hz_sample_look() != UINT64_MAX)
            usleep(1000);
        require(hz_os_now_ms() >= due && !hz_sampling_is_on() && !hz_sampler_is_on(unit::self()), "it has ended");
        require(hz_sample_begin(1) == 0 && hz_sample_begin(HZ_SAMPLE_FOR_GOOD) == 0, "for good");
        require(hz_sample_look() == UINT64_MAX && hz_sampling_is_on(), "which nothing ends but the call");
    });
}

/* Two threads switch, others allocate, and new ones begin and end. */
TEST(Sample, AtAnyMoment) {
    constexpr int threads = 3, switches = 60;
    waiting([] {
        std::atomic<bool> is_over{false};
        std::vector<std::thread> users;
        for (int i = 0; i < threads; i++)
            users.emplace_back([&] {
                hz_thread_start(); /* as pthread_create does in the shared library: so it can be parked */
                while (!is_over)
                    use_many();
            });
        std::thread short_lived([&] {
            while (!is_over)
                std::thread([] {
                    hz_thread_start();
                    use_many();
                }).join();
        });
        (void)hz_sample_begin(HZ_SAMPLE_FOR_GOOD);
        use_many(); /* the moments below can be too short */
        std::thread other([] {
            for (int i = 0; i < switches; i++)
                (void)hz_sample_begin(1);
        });
        for (int i = 0; i < switches; i++)
            (void)(i % 2 == 0 ? hz_sample_begin(HZ_SAMPLE_FOR_GOOD) : hz_sample_end());
        other.join();
        (void)hz_sample_end();
        is_over = true;
        for (std::thread &user : users)
            user.join();
        short_lived.join();
        require(!hz_sampling_is_on() && !hz_sampler_is_on(unit::self()), "the last one was an end");
        uint64_t before = sampled_blocks();
        use_many();
        require(before > 0 && sampled_blocks() == before, "and the caller has followed");
        struct hz_profile_figures figures;
        hz_profile_figures_get(&figures);
        require(figures.live_blocks == 0, "each sampled block was freed as such");
    });
}

} // namespace
