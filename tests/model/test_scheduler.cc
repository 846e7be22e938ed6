/* The scheduler itself: it finds the bugs of programs that are known to be wrong, and nothing in correct ones. */
#include "model/hooks.h"
#include "model/scheduler.h"

#include <gtest/gtest.h>

extern "C" {
#include "base/os/os.h"
}

namespace {

using model::Explored;

/* An atomic word that calls the hooks as the library does. */
class Word {
  public:
    uint64_t load(int order = __ATOMIC_ACQUIRE) {
        hz_model_point(__FILE__, __LINE__, &value_);
        return hz_model_loaded(&value_, value_, order);
    }
    void store(uint64_t value, int order = __ATOMIC_RELEASE) {
        hz_model_point(__FILE__, __LINE__, &value_);
        uint64_t before = value_;
        if (hz_model_delays(&value_, before, value, sizeof(value_), order))
            return;
        value_ = value;
        hz_model_stored(&value_, before, value_, order);
    }
    uint64_t add(uint64_t by, int order = __ATOMIC_ACQ_REL) {
        hz_model_point(__FILE__, __LINE__, &value_);
        hz_model_settle(&value_, order);
        uint64_t before = value_;
        value_ += by;
        hz_model_changed(&value_, before, value_, order);
        return before;
    }

  private:
    uint64_t value_ = 0;
};

/* Two threads add one each by load and store, so one addition can be lost. */
void lost_update() {
    Word word;
    auto add = [&] { word.store(word.load() + 1); };
    model::together({add, add});
    MODEL_CHECK(word.load() == 2);
}

TEST(Scheduler, FindsALostUpdate) {
    Explored found = model::search(100, lost_update);
    EXPECT_TRUE(found.failed);
    EXPECT_NE(found.text.find("word.load() == 2"), std::string::npos) << found.text;
    EXPECT_NE(found.text.find("  thread 2  test_scheduler.cc:"), std::string::npos) << "the last steps: " << found.text;
}

TEST(Scheduler, FindsNothingInACorrectProgram) {
    Explored found = model::search(300, [] {
        Word word;
        auto add = [&] { word.add(1, __ATOMIC_RELAXED); };
        model::together({add, add, add});
        MODEL_CHECK(word.load() == 3);
    });
    EXPECT_FALSE(found.failed) << found.text;
    EXPECT_EQ(found.schedules, 300U);
}

TEST(Scheduler, TakesTheSameStepsAgain) {
    Explored found = model::search(100, lost_update);
    for (unsigned round = 0; round < 3; round++) {
        Explored again = model::search_one(found.seed, lost_update);
        EXPECT_TRUE(again.failed);
        EXPECT_EQ(again.text, found.text);
    }
}

TEST(Scheduler, ListsEverySchedule) {
    bool all = false;
    Explored found = model::search_all(1, 1000, lost_update, &all);
    EXPECT_TRUE(found.failed) << "one change is enough";
    Explored none = model::search_all(0, 1000, lost_update, &all);
    EXPECT_FALSE(none.failed) << "one thread after the other";
    EXPECT_EQ(none.schedules, 1U);
    EXPECT_TRUE(all);
}

/* With enough changes of thread, everything appears that two threads of two steps each can see of each other. */
TEST(Scheduler, ListsAllOutcomes) {
    bool all = false;
    Explored found = model::search_all(
        3, 10000,
        [] {
            Word word;
            uint64_t seen[2][2] = {};
            model::together({[&] { seen[0][0] = word.add(1), seen[0][1] = word.add(1); },
                             [&] { seen[1][0] = word.add(10), seen[1][1] = word.add(10); }});
            model::reached(static_cast<unsigned>(seen[0][0] / 10 * 3 + seen[0][1] / 10));
        },
        &all);
    EXPECT_TRUE(all);
    EXPECT_FALSE(found.failed) << found.text;
    for (unsigned first = 0; first <= 2; first++)
        for (unsigned second = first; second <= 2; second++)
            EXPECT_GT(found.facts[first * 3 + second], 0U) << first << " before, " << second << " between";
}

TEST(Scheduler, FindsADeadlock) {
    Explored found = model::search(200, [] {
        model::Channel<int> one;
        model::Channel<int> other;
        model::together({[&] { one.put(other.get()); }, [&] { other.put(one.get()); }});
    });
    EXPECT_TRUE(found.failed);
    EXPECT_EQ(found.text.find("deadlock: no thread can go on; thread 1 sleeps at scheduler.h:"), 0U) << found.text;
}

TEST(Scheduler, FindsALivelock) {
    Explored found = model::search(1, [] {
        Word word;
        auto wait = [&] {
            while (word.load() == 0)
                model::point(__FILE__, __LINE__, &word);
        };
        model::together({wait});
    });
    EXPECT_TRUE(found.failed);
    EXPECT_EQ(found.text.find("livelock: "), 0U) << found.text;
}

TEST(Scheduler, ACrashIsAFailure) {
    Explored found = model::search(1, [] { model::together({[] { __builtin_trap(); }}); });
    EXPECT_TRUE(found.failed);
    EXPECT_EQ(found.text.find("ended by signal: "), 0U) << found.text;
}

/* A thread that reads the flag must find the data, if the flag is released and acquired. */
Explored message(int release, int acquire) {
    return model::search(300, [=] {
        Word data;
        Word flag;
        model::together({[&] { data.store(1, __ATOMIC_RELAXED), flag.store(1, release); },
                         [&] { MODEL_CHECK(flag.load(acquire) == 0 || data.load(__ATOMIC_RELAXED) == 1); }});
    });
}

TEST(Memory, ReleaseAndAcquireTogetherPublish) {
    EXPECT_FALSE(message(__ATOMIC_RELEASE, __ATOMIC_ACQUIRE).failed);
    EXPECT_TRUE(message(__ATOMIC_RELAXED, __ATOMIC_ACQUIRE).failed);
    EXPECT_TRUE(message(__ATOMIC_RELEASE, __ATOMIC_RELAXED).failed);
}

/* A read-modify-write in between passes the release on, but a store does not. */
Explored message_with(bool changes) {
    return model::search(600, [=] {
        Word data;
        Word flag;
        model::together({[&] { data.store(1, __ATOMIC_RELAXED), flag.store(1); },
                         [&] {
                             if (flag.load(__ATOMIC_RELAXED) != 1)
                                 return;
                             if (changes)
                                 flag.add(1, __ATOMIC_RELAXED);
                             else
                                 flag.store(2, __ATOMIC_RELAXED);
                         },
                         [&] { MODEL_CHECK(flag.load() != 2 || data.load(__ATOMIC_RELAXED) == 1); }});
    });
}

TEST(Memory, AChangePassesTheReleaseOn) {
    Explored found = message_with(true);
    EXPECT_FALSE(found.failed) << found.text;
    EXPECT_TRUE(message_with(false).failed);
}

/* When a thread has read a value, a thread that comes after it cannot read an older one, whatever the stores' order. */
TEST(Memory, ThePastIncludesWhatWasRead) {
    for (int order : {__ATOMIC_RELEASE, __ATOMIC_RELAXED}) {
        Explored found = model::search(400, [=] {
            Word data;
            Word flag;
            model::together({[&] { data.store(1, order); },
                             [&] {
                                 if (data.load() == 1)
                                     flag.store(1);
                             },
                             [&] { MODEL_CHECK(flag.load() == 0 || data.load(__ATOMIC_RELAXED) == 1); }});
        });
        EXPECT_FALSE(found.failed) << found.text;
    }
}

TEST(Memory, AThreadDoesNotSeeItsOwnStoresUndone) {
    Explored found = model::search(500, [] {
        Word word;
        auto count = [&] {
            word.store(model::thread_number(), __ATOMIC_RELAXED);
            MODEL_CHECK(word.load(__ATOMIC_RELAXED) != 0);
        };
        model::together({count, count});
    });
    EXPECT_FALSE(found.failed) << found.text;
}

/* Each thread stores, then loads what the other stores. Without a barrier both can miss the other's store. */
Explored dekker(int store, int load, bool with_barrier) {
    return model::search(400, [=] {
        Word first;
        Word second;
        uint64_t seen[2] = {};
        model::together({[&] {
                             first.store(1, store);
                             if (with_barrier)
                                 hz_os_barrier();
                             seen[0] = second.load(load);
                         },
                         [&] { second.store(1, store), seen[1] = first.load(load); }});
        MODEL_CHECK(seen[0] == 1 || seen[1] == 1);
    });
}

TEST(Memory, LoadsCanOvertakeEarlierStores) {
    EXPECT_TRUE(dekker(__ATOMIC_RELAXED, __ATOMIC_RELAXED, false).failed);
    EXPECT_TRUE(dekker(__ATOMIC_RELEASE, __ATOMIC_ACQUIRE, false).failed);
    Explored found = dekker(__ATOMIC_RELAXED, __ATOMIC_RELAXED, true);
    EXPECT_FALSE(found.failed) << found.text;
}

/* Each thread stores to both words, in different orders. Both first stores can come last. */
Explored stores_change_places(int order) {
    return model::search(3000, [=] {
        Word first;
        Word second;
        model::together({[&] { first.store(1, order), second.store(2, order); },
                         [&] { second.store(1, order), first.store(2, order); }});
        MODEL_CHECK(first.load() != 1 || second.load() != 1);
    });
}

TEST(Memory, StoresCanBecomeVisibleInAnotherOrder) {
    EXPECT_TRUE(stores_change_places(__ATOMIC_RELAXED).failed);
}

/* As dekker(), but the second operations are read-modify-writes, which see the newest value. If those of `turn` do not
   release, the store can come after both. */
Explored store_before_change(int order) {
    return model::search(600, [=] {
        Word word;
        Word turn;
        uint64_t seen[2] = {};
        model::together({[&] { word.store(1, __ATOMIC_RELAXED), seen[0] = turn.add(1, order); },
                         [&] { turn.add(1, order), seen[1] = word.add(2, __ATOMIC_RELAXED); }});
        MODEL_CHECK(seen[0] == 1 || seen[1] == 1);
    });
}

TEST(Memory, AStoreCanBecomeVisibleAfterLaterChanges) {
    EXPECT_TRUE(store_before_change(__ATOMIC_ACQUIRE).failed);
    EXPECT_TRUE(store_before_change(__ATOMIC_RELAXED).failed);
    Explored found = store_before_change(__ATOMIC_ACQ_REL);
    EXPECT_FALSE(found.failed) << found.text;
}

/* Its own thread sees a delayed store, and no other thread overtakes it for ever. */
TEST(Memory, AStoreIsSeenByItsThreadAtOnceAndByOthersInTheEnd) {
    Explored found = model::search(300, [] {
        Word word;
        Word other;
        model::together({[&] {
                             word.store(1, __ATOMIC_RELAXED);
                             MODEL_CHECK(word.load(__ATOMIC_RELAXED) == 1);
                             while (other.load() == 0) {
                             }
                         },
                         [&] {
                             while (word.load(__ATOMIC_RELAXED) == 0) {
                             }
                             other.store(1, __ATOMIC_RELAXED);
                         }});
        MODEL_CHECK(word.load() == 1 && other.load() == 1);
    });
    EXPECT_FALSE(found.failed) << found.text;
}

/* As message(), with a block: without a release, the ledger finds that the block arrives without its past. */
Explored block_through(int release) {
    return model::search(200, [=] {
        static uint64_t block[4];
        Word flag;
        model::Ledger ledger;
        ledger.taken(block, sizeof(block));
        model::together({[&] { ledger.given(block), flag.store(1, release); },
                         [&] {
                             if (flag.load() == 1)
                                 ledger.taken(block, sizeof(block), true);
                         }});
    });
}

TEST(Ledger, ABlockWithoutItsPastIsFound) {
    EXPECT_FALSE(block_through(__ATOMIC_RELEASE).failed);
    Explored found = block_through(__ATOMIC_RELAXED);
    EXPECT_TRUE(found.failed);
    EXPECT_EQ(found.text.find("a block has come without its past"), 0U) << found.text;
}

std::string first_line(void (*misuse)(model::Ledger *, uint64_t *)) {
    Explored found = model::search(1, [=] {
        static uint64_t block[4];
        model::Ledger ledger;
        ledger.taken(block, sizeof(block));
        misuse(&ledger, block);
    });
    return found.text.substr(0, found.text.find('\n'));
}

TEST(Ledger, FindsEveryMisuse) {
    using model::Ledger;
    EXPECT_EQ(first_line([](Ledger *ledger, uint64_t *block) { ledger->taken(block, 32); }), "a block has two holders");
    EXPECT_EQ(first_line([](Ledger *ledger, uint64_t *block) { block[3]++, ledger->given(block); }),
              "a block has changed while it was held");
    EXPECT_EQ(first_line([](Ledger *ledger, uint64_t *block) { ledger->given(block), ledger->given(block); }),
              "a block was given up by a thread that does not hold it");
    EXPECT_EQ(first_line([](Ledger *ledger, uint64_t *block) {
                  ledger->given(block), block[1]++, ledger->taken(block, 32, true);
              }),
              "a block has changed on its way");
    EXPECT_EQ(first_line([](Ledger *ledger, uint64_t *) { ledger->taken(nullptr, 32); }), "no block");
}

} // namespace
