/* The list with many senders and one taker at a time, by itself. */
#include "model/lists.h"

namespace {

using model::Pieces;

/* `senders` threads send lists of one and two blocks, and another thread takes them. The rest is taken at the end. */
void send_and_take(unsigned senders, unsigned lists) {
    struct hz_mpsc queue = {};
    Pieces pieces(size_t{senders} * lists * 2);
    model::Ledger ledger;
    uint32_t sent = 0;
    uint32_t got = 0;
    std::vector<std::function<void()>> bodies;
    for (size_t i = 0; i < pieces.size(); i++)
        ledger.taken(pieces[i], Pieces::BYTES);
    for (unsigned sender = 0; sender < senders; sender++)
        bodies.emplace_back([&, sender] {
            for (unsigned list = 0; list < lists; list++) {
                model::Blocks blocks = {pieces[(sender * lists + list) * 2]};
                if (list % 2 == 0)
                    blocks.push_back(pieces[(sender * lists + list) * 2 + 1]);
                for (void *block : blocks)
                    ledger.given(block);
                struct hz_list made = model::list_of(blocks);
                sent += made.count;
                MODEL_CHECK(hz_mpsc_send(&queue, &made, HZ_LIST_COUNT_MAX));
            }
        });
    auto take = [&] { got += model::take_word(&ledger, hz_mpsc_take(&queue), Pieces::BYTES); };
    bodies.emplace_back([&] {
        for (unsigned tries = 0; tries < 2 * senders; tries++)
            take();
        if (got > 0)
            model::reached(0);
    });
    model::together(bodies);
    take();
    MODEL_CHECK(got == sent);
    MODEL_CHECK(hz_mpsc_take(&queue) == 0);
}

TEST(Lists, SendersAndATaker) {
    model::Explored found = model::explore("send-take", 1000, [] { send_and_take(3, 2); });
    EXPECT_GT(found.facts[0], 0U) << "no take found blocks while others sent";
}

TEST(Lists, EveryOrderOfTwoSendersAndATaker) {
    model::explore_all("send-take", 2, 3000, [] { send_and_take(2, 1); });
}

/* The sender keeps a list that does not fit. */
TEST(Lists, TheCapHolds) {
    model::explore("send-take", 500, [] {
        struct hz_mpsc queue = {};
        Pieces pieces(6);
        model::Ledger ledger;
        uint32_t accepted = 0;
        auto send = [&](size_t first) {
            for (size_t i = first; i < first + 3; i++) {
                ledger.taken(pieces[i], Pieces::BYTES);
                ledger.given(pieces[i]);
                struct hz_list one = {pieces[i], pieces[i], 1};
                accepted += hz_mpsc_send(&queue, &one, 4);
                MODEL_CHECK(hz_mpsc_count(&queue) <= 4);
            }
        };
        model::together({[&] { send(0); }, [&] { send(3); }});
        MODEL_CHECK(accepted == 4);
        MODEL_CHECK(model::take_word(&ledger, hz_mpsc_take(&queue), Pieces::BYTES) == 4);
    });
}

} // namespace
