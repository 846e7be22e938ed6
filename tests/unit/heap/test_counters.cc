/*
 * Every counter of the .def files counts what its text says, and nothing else. Each step below states all counters that
 * it changes, as hz_stats_print shows them. The program fails if a counter is changed by no step.
 */
#include "contract/report.h"
#include "unit/heap/counter_names.h"
#include "unit/heap/worker.h"

#include <functional>
#include <memory>
#include <string>
#include <thread>

namespace {

using counter_names::computed;
using counter_names::def_counters;
using counter_names::known;
using counter_names::names_in_def;
using report::Names;
using report::Values;
using unit::Blocks;
using unit::mail;
using unit::Mail;

/* ---- which counters there are, and which were tested ---- */

Values counters() {
    Values values = report::counters_of_json(report::printed(HZ_STATS_JSON));
    EXPECT_FALSE(values.empty());
    return values;
}

Names &tested() {
    static Names names;
    return names;
}

/* A knob's value from the configuration string, since a knob of one engine is not a constant in the other. */
size_t knob(const std::string &name) {
    std::string config = t_table.config_fn();
    size_t at = config.find(" " + name + "=");
    return at == std::string::npos ? 0 : strtoul(config.c_str() + at + name.size() + 2, nullptr, 10);
}

/* The counters of the inbox, by the engine's names. */
constexpr bool is_hz3 = std::string_view(HZ_ENGINE_NAME) == "hz3";
constexpr const char *name_of_send = is_hz3 ? "counters.stash_send" : "remote.inbox_push_list";
constexpr const char *name_of_take = is_hz3 ? "counters.refill_stash" : "remote.inbox_consume";

/* A refill finds no leftovers, in lanes that may have some. */
constexpr double no_leftovers = HZ_WAY_IS_DIRECT ? 0 : 1;

/* Counters that this lane never counts. */
Names silent() {
    Names names;
    if (mail() == Mail::none)
        names.insert({"counters.refill_carry", "remote.carry_hit", "remote.carry_miss", "remote.inbox_stash_max",
                      "remote.mail_blocks"});
    if (HZ_HOME_BELOW_BYTES <= 16) /* no class goes home, so nothing goes through a remote buffer */
        names.insert({"counters.remote_free", "remote.remote_flush_calls", "remote.rlen_ge_th"});
    if (mail() != Mail::pages)
        names.insert({"remote.blocks_per_100_pages", "remote.push_objs", "remote.pageq_enq", "remote.pop_calls",
                      "remote.pageq_deq", "remote.drain_total"});
    if (mail() == Mail::pages || HZ_INBOX_MAX_BYTES == 0)
        names.insert({name_of_send, name_of_take});
    if (HZ_DEPOT_BYTES == 0)
        names.insert({"counters.depot_push", "counters.refill_depot", "mid.depot_hit"});
    if (mail() != Mail::tiers && is_hz3)
        names.insert(
            {"counters.refill_transfer", "counters.refill_central", "counters.transfer_send", "counters.central_send"});
    return names;
}

Names without(Names names, const Names &dropped) {
    for (const std::string &name : dropped)
        names.erase(name);
    return names;
}

class EveryCounterIsTested : public testing::Environment {
    void TearDown() override {
        if (testing::GTEST_FLAG(filter) != "*")
            return;
        Names all = report::names_of(counters());
        EXPECT_EQ(without(without(all, silent()), tested()), Names()) << "no test counts these";
        EXPECT_EQ(without(silent(), all), Names()) << "the report does not know these";
    }
};

const testing::Environment *const environment = testing::AddGlobalTestEnvironment(new EveryCounterIsTested);

/* ---- steps ---- */

/* tick.c looks at the clock in every 32nd visit of a slow path. */
enum { VISITS_FIRST = 1, VISITS_LAST = 31 };

/* Sets every counter of every thread to 0, and delays the next look at the clock (hz_tick) as far as possible. No other
   thread may be running. */
void clear_counters() {
    hz_thread_blocks_ended = {};
    for (struct hz_registered *thread = hz_registry_first(); thread != nullptr; thread = thread->next) {
        if (hz_load_rlx(&thread->is_hollow))
            continue; /* it has none */
        struct hz_thread_block *block = hz_thread_block_from(thread);
        block->counters = {};
        for (unsigned size_class = HZ_MID_CLASS_FIRST; size_class < HZ_CLASS_COUNT; size_class++)
            block->counters.mid_moved -=
                unit::bin_count(block, size_class); /* what bins hold now will not count as freed */
        block->counters.mid_moved -= unit::mid_in_buffer(block);
        block->slow_count = VISITS_FIRST;
    }
}

/* False if some thread may have looked at the clock since clear_counters(). Then the thread's work depends on time. */
bool clock_was_left_alone() {
    bool left_alone = true;
    for (struct hz_registered *thread = hz_registry_first(); thread != nullptr; thread = thread->next)
        left_alone = left_alone && hz_thread_block_from(thread)->slow_count <= VISITS_LAST;
    return left_alone;
}

/* Adds the values of two steps. */
Values operator+(Values a, const Values &b) {
    for (const auto &[name, value] : b)
        a[name] += value;
    return a;
}

/* A thread with blocks of a shard of its own. */
class Owner : public unit::Worker {
  public:
    Owner() : Worker(false) {
        run([] { unit::grow_bins(unit::self()); });
    }
    struct hz_shard *shard() {
        struct hz_shard *shard = nullptr;
        run([&] { shard = unit::self()->shard; });
        return shard;
    }
    Blocks take(unsigned size_class, size_t count) {
        Blocks blocks(count);
        run([&] {
            for (void *&block : blocks)
                block = t_malloc(hz_class_bytes(size_class));
        });
        return blocks;
    }
    void take_all_of_bin(unsigned size_class, Blocks &blocks) {
        run([&] {
            for (unsigned count = unit::bin_count(unit::self(), size_class); count > 0; count--)
                blocks.push_back(t_malloc(hz_class_bytes(size_class)));
        });
    }
    void give(const Blocks &blocks) {
        run([&] {
            for (void *block : blocks)
                t_free(block);
        });
    }
};

/* Each test starts with every page purged, and ends with every block freed. */
class Counters : public testing::Test {
  protected:
    void SetUp() override {
        self_ = unit::self();
        hz_purge();
        unit::grow_bins(self_);
        clear_counters();
    }
    void TearDown() override {
        give(blocks_);
        hz_purge();
        EXPECT_EQ(live_bytes_at_start_, support::live_bytes());
    }

    /* Runs the step, and checks that all threads together count exactly `expected`. */
    static void expect(const char *what, const Values &expected, const std::function<void()> &step) {
        SCOPED_TRACE(what);
        ASSERT_TRUE(clock_was_left_alone()) << "the steps before this one depend on time";
        clear_counters();
        step();
        ASSERT_TRUE(clock_was_left_alone()) << "this step depends on time";
        Values counted;
        for (const auto &[name, value] : counters())
            if (value != 0 && known.count(name) == 0)
                counted[name] = value;
        Values wanted;
        for (const auto &[name, value] : expected) {
            tested().insert(name);
            if (value != 0 && (HZ_CONFIG_STATS || names_in_def(true).count(name) + computed.count(name) == 0))
                wanted[name] = value;
        }
        EXPECT_EQ(counted, wanted);
    }

    /* Allocates blocks, which are freed at the end of the test at the latest. */
    void take(unsigned size_class, size_t count = 1) {
        for (size_t i = 0; i < count; i++)
            blocks_.push_back(t_malloc(hz_class_bytes(size_class)));
    }
    void take_all_of_bin(unsigned size_class) {
        take(size_class, unit::bin_count(self_, size_class));
    }
    static void give(Blocks &blocks) {
        for (void *block : blocks)
            t_free(block);
        blocks.clear();
    }
    void give(size_t count) {
        for (; count > 0; count--) {
            t_free(blocks_.back());
            blocks_.pop_back();
        }
    }
    static size_t shard_count() {
        size_t count = 0;
        while (hz_shard_get(static_cast<unsigned>(count)) != nullptr)
            count++;
        return count;
    }

    struct hz_thread_block *self_ = nullptr;
    Blocks blocks_;
    size_t live_bytes_at_start_ = support::live_bytes();
};

const unsigned small_class = hz_class_of(64);
const unsigned mid_class = hz_class_of(2304);  /* 28 blocks in a run */
const size_t class_count = HZ_CLASS_COUNT - 1; /* without class 0 */

/* What allocating and freeing a block of a mid class counts in addition. */
const Values mid_call = {{"mid.malloc_calls", 1}};
const Values mid_free = {{"mid.free_calls", 1}, {"mid.free_batch_enq", 1}};
const Values mid_hit = {{"mid.lock_path", 1}, {"mid.bin_hit", 1}};
const Values mid_miss = {{"mid.lock_path", 1}, {"mid.bin_miss", 1}};

/* A refill that has to make a page, and one from an existing page. */
const Values from_new_page = {{"counters.refill", 1},
                              {"counters.refill_page", 1},
                              {"counters.page_create", 1},
                              {"remote.carry_miss", no_leftovers},
                              {"locks.ls_acq_self", 2}};
const Values from_page = {
    {"counters.refill", 1}, {"counters.refill_page", 1}, {"remote.carry_miss", no_leftovers}, {"locks.ls_acq_self", 1}};
const Values mid_new_page = mid_call + mid_miss + Values{{"mid.page_create", 1}};

/* Sending a list, or, in lanes without mailboxes, putting the blocks into their pages. `pages`: how many pages, to
 * which nothing was sent before, get enough of its blocks to be queued. */
Values sent(size_t blocks, size_t pages) {
    auto count = static_cast<double>(blocks);
    Values home = {{"counters.home_blocks", count}, {"remote.mail_blocks", count}};
    switch (mail()) {
    case Mail::none:
        return {{"counters.home_blocks", count}, {"counters.direct_home", 1}, {"locks.ls_rel_steal", 1}};
    case Mail::tiers:
        return home + Values{{HZ_INBOX_MAX_BYTES > 0 ? name_of_send : "counters.transfer_send", 1}};
    case Mail::inbox:
        return home + Values{{name_of_send, 1}};
    default:
        return home + Values{{"remote.push_objs", count}, {"remote.pageq_enq", static_cast<double>(pages)}};
    }
}

/* Emptying the remote buffer at a thread's end, in lanes in which mid blocks are in it. */
Values flushed_buffer(size_t blocks) {
    if (!HZ_HAS_MID_HOME)
        return {};
    return {{"counters.remote_free", static_cast<double>(blocks)}, {"remote.remote_flush_calls", 1}};
}

/* Taking a list whose blocks are of one page. */
Values taken(size_t blocks) {
    switch (mail()) {
    case Mail::tiers:
        return {{HZ_INBOX_MAX_BYTES > 0 ? name_of_take : "counters.refill_transfer", 1}};
    case Mail::inbox:
        return {{name_of_take, 1}};
    default:
        return {{"remote.pop_calls", 1}, {"remote.pageq_deq", 1}, {"remote.drain_total", blocks}};
    }
}

/* ---- the lists of names ---- */

TEST_F(Counters, ReportNamesAllOfTheDefFiles) {
    Names expected = known;
    for (const std::string &name : names_in_def(false))
        expected.insert(name);
    if (HZ_CONFIG_STATS) {
        expected.insert(computed.begin(), computed.end());
        for (const std::string &name : names_in_def(true))
            expected.insert(name);
    }
    EXPECT_EQ(report::names_of(counters()), expected);
    EXPECT_EQ(names_in_def(true).size() + names_in_def(false).size(), std::size(def_counters))
        << "two counters have the same name";
}

TEST_F(Counters, HotOnesAreThoseOfShortPaths) {
    EXPECT_EQ(names_in_def(true), Names({"mid.alloc_cache_hit"}));
    for (const std::string &name : names_in_def(true))
        EXPECT_EQ(counters().count(name), HZ_CONFIG_STATS ? 1U : 0U) << name;
}

TEST(CountersSelfTest, AnUntestedCounterIsSeen) {
    EXPECT_EQ(without({"os.a", "os.b"}, {"os.a"}), Names({"os.b"}));
    EXPECT_EQ(without(report::names_of(counters()), Names()).count("locks.ls_acq_self"), 1U);
}

/* ---- bins, pages, depot ---- */

TEST_F(Counters, SmallBlocksFromPagesAndBins) {
    expect("a new page", from_new_page, [&] { take(small_class); });
    expect("from the bin", {}, [&] { take_all_of_bin(small_class); });
    expect("from the same page", from_page, [&] { take(small_class); });
    expect("freed into the bin", {}, [&] { give(1); });
}

TEST_F(Counters, MidBlocksFromPagesAndBins) {
    expect("a new page", from_new_page + mid_new_page, [&] { take(mid_class); });
    expect("from the bin", {{"mid.malloc_calls", 1}, {"mid.alloc_cache_hit", 1}}, [&] { take(mid_class); });
    take_all_of_bin(mid_class);
    expect("from the same run", from_page + mid_call + mid_hit, [&] { take(mid_class); });
    expect("freed into the bin", mid_free, [&] { give(1); });
    expect("calloc", {{"mid.malloc_calls", 1}, {"mid.alloc_cache_hit", 1}},
           [&] { blocks_.push_back(t_calloc(1, hz_class_bytes(mid_class))); });
    expect("realloc in place", {}, [&] { blocks_.back() = t_realloc(blocks_.back(), hz_class_bytes(mid_class) - 1); });
}

/* Starts from a full bin and an empty depot. */
TEST_F(Counters, AFullBinIsFlushedIntoTheDepotOrHome) {
    for (unsigned size_class : {small_class, mid_class}) {
        unsigned capacity = hz_bin_capacity(size_class);
        bool is_mid = hz_class_is_mid(size_class);
        take(size_class, capacity + 1);
        give(capacity - unit::bin_count(self_, size_class));
        ASSERT_EQ(unit::bin_count(self_, size_class), capacity);
        uint32_t batch = hz_batch_count(size_class);
        Values moved = {{"counters.depot_push", (capacity / 2 + batch - 1) / batch}};
        if (HZ_HAS_DEPOT == 0)
            moved = {{"counters.home_blocks", capacity / 2},
                     {"locks.ls_rel_self", (capacity / 2 + unit::home_count - 1) / unit::home_count}};
        Values flushed = moved + Values{{"counters.flush", 1}};
        if (is_mid)
            flushed = flushed + mid_free + Values{{"mid.free_batch_flush", 1}};
        expect("one more than the bin holds", flushed, [&] { give(1); });
        take_all_of_bin(size_class);
        Values served = from_page;
        if (HZ_HAS_DEPOT != 0)
            served = {{"counters.refill", 1}, {"counters.refill_depot", 1}};
        if (is_mid)
            served = served + mid_call + (HZ_HAS_DEPOT != 0 ? Values{{"mid.depot_hit", 1}} : mid_hit);
        expect("allocated again", served, [&] { take(size_class); });
        clear_counters();
    }
}

TEST_F(Counters, PagesAreRetiredAndCounted) {
    unsigned size_class = hz_class_of(48 * support::KiB); /* a page has four, so the bin has room for two pages */
    take(size_class);
    size_t per_page = hz_page_of(blocks_[0])->capacity;
    take(size_class, 2 * per_page - 1);
    give(blocks_);
    ASSERT_EQ(unit::bin_count(self_, size_class), 2 * per_page);
    expect("of two free pages, one is kept",
           {{"counters.home_blocks", 2 * per_page}, {"counters.page_retire", 1}, {"locks.ls_rel_self", 1}},
           [&] { hz_thread_flush(self_); });
    const size_t locks = mail() == Mail::none ? 1 : class_count; /* to retire; and to drain each class */
    expect("a purge keeps no page",
           {{"counters.page_retire", 1},
            {"locks.ls_rel_self", mail() == Mail::none ? 1 : class_count + 1},
            {"locks.ls_rel_steal", (shard_count() - 1) * locks}},
           [] { (void)hz_purge(); });
}

TEST_F(Counters, PagesOfShardsWithoutThreadsAreAdopted) {
    for (unsigned size_class : {small_class, mid_class}) {
        Owner worker;
        Blocks alive = worker.take(size_class, 1);
        expect("a thread that ends sends its bin home",
               {{"counters.home_blocks", hz_batch_count(size_class) - 1}, {"locks.ls_rel_self", 1}},
               [&] { worker.end(); });
        Values adopted = {{"counters.refill", 1},     {"counters.refill_page", 1},
                          {"counters.page_adopt", 1}, {"remote.carry_miss", no_leftovers},
                          {"locks.ls_acq_self", 3},   {"locks.ls_acq_steal", 1}};
        if (hz_class_is_mid(size_class))
            adopted = adopted + mid_call + mid_miss;
        expect("another thread's shard adopts its page", adopted, [&] { take(size_class); });
        give(alive);
        clear_counters();
    }
}

/* ---- blocks on their way home ---- */

/* Most blocks of one kind of mailbox that is bounded by `bytes`: at least one list. */
size_t mail_cap(size_t bytes, unsigned size_class) {
    size_t list = unit::home_count;
    if (!hz_class_is_home(size_class))
        list = hz_batch_count(size_class);
    else if (hz_class_is_mid(size_class))
        list = std::min<size_t>(hz_bin_capacity(size_class), list);
    return std::min<size_t>(std::max(bytes / hz_class_bytes(size_class), list), 0xffff); /* a list can count so many */
}

TEST_F(Counters, BlocksSentHomeAreTakenAndCarried) {
    Owner owner;
    if (mail() == Mail::none)
        GTEST_SKIP() << "in this lane no blocks wait";
    if (mail() == Mail::tiers && HZ_INBOX_MAX_BYTES == 0)
        GTEST_SKIP() << "each list has a slot of transfer";
    const size_t count = hz_batch_count(mid_class);
    Blocks blocks = owner.take(mid_class, count + 2); /* of one run */
    owner.take_all_of_bin(mid_class, blocks);
    ASSERT_EQ(hz_page_of(blocks.front()), hz_page_of(blocks.back()));
    struct hz_shard *shard = owner.shard();
    expect("a list is sent", sent(count, 1), [&] { unit::send(shard, unit::part(blocks, 0, count)); });
    expect("a second list is sent to the same page", sent(2, 0),
           [&] { unit::send(shard, unit::part(blocks, count, 2)); });
    blocks.erase(blocks.begin(), blocks.begin() + static_cast<long>(count + 2));
    Values got = Values{{"counters.refill", 1}, {"locks.ls_acq_self", 1}} + mid_call + mid_hit;
    Blocks again;
    auto one = [&] { again.push_back(owner.take(mid_class, 1)[0]); };
    expect("the owner takes all blocks, and uses a batch",
           got + taken(count + 2) + Values{{"remote.carry_miss", no_leftovers}, {"remote.inbox_stash_max", 2}}, one);
    if (mail() == Mail::pages) {
        tested().insert("remote.blocks_per_100_pages");
        EXPECT_EQ(counters()["remote.blocks_per_100_pages"], 100 * (count + 2)) << "all blocks were of one page";
    }
    owner.take_all_of_bin(mid_class, again);
    expect("the leftovers", got + Values{{"counters.refill_carry", 1}, {"remote.carry_hit", 1}}, one);
    owner.give(blocks);
    owner.give(again);
    clear_counters();
}

/* Single blocks fill the stash, then transfer, then central. After that the sender puts blocks into their pages. */
TEST_F(Counters, TiersOverflowOneIntoTheNext) {
    if (mail() != Mail::tiers)
        GTEST_SKIP() << "this lane has no transfer and no central";
    unsigned size_class = unit::largest_short;
    size_t batch = hz_batch_count(size_class);
    size_t stash = HZ_INBOX_MAX_BYTES > 0 ? mail_cap(HZ_INBOX_MAX_BYTES, size_class) : 0;
    size_t central = mail_cap(knob("HZ_CENTRAL_BYTES"), size_class);
    constexpr size_t transfer = 8;
    ASSERT_LE(stash, batch) << "one refill must take the whole stash";
    Owner owner;
    struct hz_shard *shard = owner.shard();
    Blocks blocks = owner.take(size_class, stash + transfer + central + 1);
    Blocks again;
    owner.take_all_of_bin(size_class, again);
    auto send = [&](size_t from, size_t count) {
        for (size_t i = from; i < from + count; i++) {
            unit::send(shard, unit::part(blocks, i, 1));
        }
    };
    auto lists = [](const char *name, size_t count) {
        return Values{{name, count}, {"counters.home_blocks", count}, {"remote.mail_blocks", count}};
    };
    if (stash > 0)
        expect("stash", lists("counters.stash_send", stash), [&] { send(0, stash); });
    expect("transfer", lists("counters.transfer_send", transfer), [&] { send(stash, transfer); });
    expect("central", lists("counters.central_send", central), [&] { send(stash + transfer, central); });
    expect("no room", {{"counters.direct_home", 1}, {"counters.home_blocks", 1}, {"locks.ls_rel_steal", 1}},
           [&] { send(stash + transfer + central, 1); });
    Values got = Values{{"counters.refill", 1}, {"remote.carry_miss", no_leftovers}, {"locks.ls_acq_self", 1}} +
                 mid_call + mid_hit;
    auto one = [&] { again.push_back(owner.take(size_class, 1)[0]); };
    if (stash > 0)
        expect("from the stash", got + Values{{"counters.refill_stash", 1}}, one);
    owner.take_all_of_bin(size_class, again);
    ASSERT_EQ(transfer % batch, 0U);
    for (size_t i = 0; i < transfer / batch; i++) {
        expect("from transfer, a batch of lists", got + Values{{"counters.refill_transfer", batch}}, one);
        owner.take_all_of_bin(size_class, again);
        clear_counters();
    }
    expect("from central", got + Values{{"counters.refill_central", 1}, {"remote.inbox_stash_max", central - batch}},
           one);
    owner.take_all_of_bin(size_class, again);
    Values carried = {{"counters.refill_carry", 1}, {"remote.carry_hit", 1}, {"remote.carry_miss", -1}};
    expect("the leftovers", got + carried, one);
    owner.give(again);
    clear_counters();
}

TEST_F(Counters, AFullInboxSendsTheSenderToThePages) {
    if (mail() != Mail::inbox)
        GTEST_SKIP() << "this lane has no inbox";
    size_t room = mail_cap(HZ_INBOX_MAX_BYTES, small_class);
    Blocks blocks = unit::take(self_->shard, small_class, static_cast<uint32_t>(room + 1));
    struct hz_shard *own = self_->shard;
    Owner sender;
    auto send = [&](size_t from, size_t count) {
        sender.run([&] { unit::send(own, unit::part(blocks, from, count)); });
    };
    expect("as many as the inbox holds", sent(room, 0), [&] { send(0, room); });
    expect("one more block", {{"counters.direct_home", 1}, {"counters.home_blocks", 1}, {"locks.ls_rel_steal", 1}},
           [&] { send(room, 1); });
    clear_counters();
}

TEST_F(Counters, RemoteBuffersAreSentWhenTheyAreFull) {
    constexpr size_t more = 3;
    Owner owner;
    Blocks blocks = owner.take(small_class, HZ_REMOTE_COUNT + more);
    ASSERT_EQ(hz_page_of(blocks.front()), hz_page_of(blocks.back()));
    auto free_some = [&](size_t count) {
        for (; count > 0; count--) {
            t_free(blocks.back());
            blocks.pop_back();
        }
    };
    if (!hz_class_is_home(small_class)) {
        expect("into this thread's bin", {}, [&] { free_some(more); });
        owner.give(blocks);
        return;
    }
    expect("kept in the remote buffer", {}, [&] { free_some(HZ_REMOTE_COUNT); });
    constexpr bool has_stacks = HZ_DEPOT_BYTES > 0 && !HZ_WAY_IS_QUEUES;
    const size_t batch = std::min<size_t>(HZ_REMOTE_COUNT, hz_batch_count(small_class));
    const Values batches = {{"counters.home_blocks", HZ_REMOTE_COUNT},
                            {"counters.depot_push", (HZ_REMOTE_COUNT + batch - 1) / batch}};
    Values lists;
    for (size_t left = HZ_REMOTE_COUNT, pages = 1; left > 0; pages = 0) {
        size_t count = std::min<size_t>(left, unit::home_count);
        lists = lists + sent(count, pages);
        left -= count;
    }
    expect("the remote buffer is full",
           (has_stacks ? batches : lists) + Values{{"remote.remote_flush_calls", 1},
                                                   {"remote.rlen_ge_th", 1},
                                                   {"counters.remote_free", HZ_REMOTE_COUNT}},
           [&] { free_some(more); });
    expect("a flush for another reason",
           sent(more, 0) + Values{{"remote.remote_flush_calls", 1}, {"counters.remote_free", more}},
           [&] { hz_thread_flush(self_); });
}

/* ---- locks ---- */

/* Runs the job on the worker while this thread holds the shard's lock. Releases the lock when the worker waits for it.
 */
void meet(Owner &worker, struct hz_shard *shard, std::function<void()> job) {
    struct hz_lock *lock = &shard->exclusive;
    hz_lock_acquire(lock);
    worker.begin(std::move(job));
    while (hz_load_rlx(&lock->word) != 2)
        std::this_thread::yield();
    hz_lock_release(lock);
    worker.wait();
}

TEST_F(Counters, LockOfTheOwnShardToGet) {
    Owner worker;
    Blocks blocks;
    struct hz_shard *shard = worker.shard();
    expect("held by another thread", from_new_page + Values{{"locks.ls_acq_miss", 1}},
           [&] { meet(worker, shard, [&] { blocks.push_back(t_malloc(64)); }); });
    worker.take_all_of_bin(small_class, blocks);
    expect("free", from_page, [&] { blocks.push_back(worker.take(small_class, 1)[0]); });
    worker.give(blocks);
}

TEST_F(Counters, LockOfTheOwnShardToGive) {
    Owner worker;
    struct hz_shard *shard = worker.shard();
    for (double misses : {1.0, 0.0}) {
        Blocks blocks = worker.take(small_class, 1);
        worker.give(blocks);
        auto flush = [] { hz_thread_flush(unit::self()); };
        expect(misses > 0 ? "held by another thread" : "free",
               {{"counters.home_blocks", hz_batch_count(small_class)},
                {"locks.ls_rel_self", 1},
                {"locks.ls_rel_miss", misses}},
               [&] { misses > 0 ? meet(worker, shard, flush) : worker.run(flush); });
    }
}

TEST_F(Counters, LockOfAnotherShardToGet) {
    for (double misses : {1.0, 0.0}) {
        Owner worker; /* starts before the other ends, or it would get the other's shard */
        Owner other;
        struct hz_shard *shard = other.shard();
        Blocks alive = other.take(small_class, 1);
        other.end();
        Blocks blocks;
        auto adopt = [&] { blocks.push_back(t_malloc(64)); };
        expect(misses > 0 ? "held by another thread" : "free",
               {{"counters.refill", 1},
                {"counters.refill_page", 1},
                {"counters.page_adopt", 1},
                {"remote.carry_miss", no_leftovers},
                {"locks.ls_acq_self", 3},
                {"locks.ls_acq_steal", 1},
                {"locks.ls_acq_miss", misses}},
               [&] { misses > 0 ? meet(worker, shard, adopt) : worker.run(adopt); });
        worker.give(blocks);
        worker.give(alive);
        worker.end();
        hz_purge();
        clear_counters();
    }
}

TEST_F(Counters, LockOfAnotherShardToGive) {
    for (double misses : {1.0, 0.0}) {
        Owner worker;
        Owner other;
        struct hz_shard *shard = other.shard();
        Blocks alive = other.take(mid_class, 1);
        other.end();
        worker.give(alive);
        auto flush = [] { hz_thread_flush(unit::self()); };
        expect(misses > 0 ? "held by another thread" : "free",
               flushed_buffer(1) + Values{{"counters.home_blocks", 1},
                                          {"counters.direct_home", 1},
                                          {"locks.ls_rel_steal", 1},
                                          {"locks.ls_rel_miss", misses}},
               [&] { misses > 0 ? meet(worker, shard, flush) : worker.run(flush); });
        worker.end();
        hz_purge();
        clear_counters();
    }
}

/* ---- large blocks ---- */

TEST_F(Counters, LargeBlocksAndTheirBytes) {
    for (size_t size : {size_t{HZ_RUN_ABOVE_BYTES + 1}, support::MiB, 3 * support::MiB, 9 * support::MiB}) {
        size_t usable = hz_large_bytes_for(size);
        void *block = nullptr;
        Values allocated = {{"counters.large_alloc", 1}, {"os.large_acq", usable}};
        auto expect_one = [&](const char *name, auto make) {
            expect(name, allocated, [&] { block = make(); });
            t_free(block);
        };
        if (size > HZ_CLASS_BYTES_MAX) { /* up to there malloc has classes */
            expect_one("allocated", [&] { return t_malloc(size); });
            expect_one("aligned", [&] { return t_aligned_alloc(128, size); });
        }
        if (size > HZ_RUN_CLASSES_ABOVE_BYTES)
            expect_one("zeroed", [&] { return t_calloc(1, size); });
        expect_one("aligned to more than a page", [&] { return t_aligned_alloc(2 * unit::page_bytes, size); });
        block = t_malloc(1);
        expect("grown", allocated, [&] { block = t_realloc(block, size); });
        expect("freed", {{"counters.large_free", 1}, {"os.large_rel", usable}}, [&] { t_free(block); });
    }
}

/* Bytes handed out minus bytes taken back are the live bytes, also after a block was resized in place. */
TEST_F(Counters, LargeBytesBalanceAfterResizing) {
    for (size_t size : {support::MiB, 9 * support::MiB}) {
        clear_counters();
        void *block = t_calloc(2, size);
        for (size_t next : {size, size + size / 2, 3 * size}) {
            block = t_realloc(block, next);
            ASSERT_NE(block, nullptr);
            Values now = counters();
            EXPECT_EQ(now["os.large_acq"] - now["os.large_rel"], t_usable_size(block)) << next << " of " << size;
        }
        t_free(block);
        Values now = counters();
        EXPECT_EQ(now["os.large_acq"], now["os.large_rel"]);
    }
}

/* ---- sums over threads, and figures that need no counter ---- */

TEST_F(Counters, ThreadsThatEndedStillCount) {
    Owner worker;
    expect("a thread works and ends",
           {{"counters.large_alloc", 1},
            {"counters.large_free", 1},
            {"os.large_acq", support::MiB},
            {"os.large_rel", support::MiB}},
           [&] {
               worker.run([] { t_free(t_calloc(1, support::MiB)); });
               worker.end();
           });
}

/* A maximum is the largest value of any thread, and never falls. */
TEST_F(Counters, LeftoversAreAMaximum) {
    if (mail() == Mail::none)
        GTEST_SKIP() << "in this lane no blocks wait";
    Owner first;
    Owner second;
    size_t batch = hz_batch_count(mid_class);
    for (size_t left : {1U, 3U, 2U})
        for (Owner *owner : {&first, &second}) {
            Blocks blocks = owner->take(mid_class, 2 * batch);
            owner->take_all_of_bin(mid_class, blocks);
            struct hz_shard *shard = owner->shard();
            unit::send(shard, unit::part(blocks, 0, batch + left));
            blocks.erase(blocks.begin(), blocks.begin() + static_cast<long>(batch + left));
            blocks.push_back(owner->take(mid_class, 1)[0]);
            EXPECT_EQ(counters()["remote.inbox_stash_max"], left == 2 ? 3 : left);
            owner->give(blocks);
            owner->run([] { hz_purge(); });
        }
}

TEST_F(Counters, SegmentsThatWereAcquired) {
    const size_t run_bytes = unit::run_pages_max * unit::page_bytes;
    const size_t per_segment = unit::segment_bytes / run_bytes;
    auto segments = [] { return counters()["os.seg_acq"]; };
    auto take_runs = [&](size_t count) {
        for (; count > 0; count--)
            blocks_.push_back(t_malloc(run_bytes));
    };
    for (double before = segments(); segments() == before;)
        take_runs(1); /* until the arena acquires a segment because all others are full */
    take_runs(per_segment - 1);
    double full = segments();
    take_runs(1);
    EXPECT_EQ(segments(), full + 1);
    take_runs(3 * per_segment - 1);
    EXPECT_EQ(segments(), full + 3);
    take_runs(1);
    EXPECT_EQ(segments(), full + 4);
    give(blocks_);
    EXPECT_EQ(segments(), full + 4) << "segments are counted since the start";
    tested().insert("os.seg_acq");
}

/* tests/unit/base/map/test_huge_units_faulty.cc tests what counts. */
TEST_F(Counters, HugePages) {
    struct hz_huge_figures all;
    hz_huge_figures_get(&all);
    for (auto [name, value] : {std::pair{"os.huge_asked", all.asked},
                               {"os.huge_refused", all.refused},
                               {"os.huge_slow", all.slow},
                               {"os.huge_most_us", all.most_us},
                               {"os.huge_collapsed", all.collapsed}}) {
        EXPECT_EQ(counters()[name], value);
        tested().insert(name);
    }
}

TEST_F(Counters, ThreadsAndTheirBlocks) {
    double before = counters()["counters.meta_bytes"];
    double blocks = counters()["counters.thread_blocks"];
    EXPECT_EQ(counters()["counters.threads"], 1);
    EXPECT_EQ(before, hz_meta_bytes());
    {
        std::vector<std::unique_ptr<Owner>> workers;
        for (size_t i = 0; i < static_cast<size_t>(blocks) + 20; i++)
            workers.push_back(std::make_unique<Owner>());
        EXPECT_EQ(counters()["counters.threads"], 1 + static_cast<double>(workers.size()));
        EXPECT_EQ(counters()["counters.thread_blocks"], 1 + static_cast<double>(workers.size()));
        EXPECT_EQ(counters()["counters.shards"], std::min<size_t>(HZ_NUM_SHARDS, 1 + workers.size()));
        EXPECT_GT(counters()["counters.meta_bytes"], before);
    }
    EXPECT_EQ(counters()["counters.threads"], 1);
    EXPECT_EQ(counters()["counters.thread_blocks"], 1 + blocks + 20) << "thread blocks are kept for later threads";
    for (const char *name : {"counters.threads", "counters.thread_blocks", "counters.shards", "counters.meta_bytes"})
        tested().insert(name);
}

TEST_F(Counters, TextSaysTheSame) {
    t_free(t_malloc(support::MiB));
    Values json; /* without zeros */
    for (const auto &[name, value] : counters())
        if (value != 0)
            json[name] = value;
    EXPECT_EQ(report::counters_of_text(report::printed(HZ_STATS_VERBOSE)), json);
}

} // namespace
