/* How lists reach a shard, in the lane's way: stash, transfer and central, or the inbox, or remote lists and the
 * queue of pages. Takers hold one lock, as the consumers of a shard do. Senders hold none. */
#include "model/lists.h"

#include <algorithm>

namespace {

using model::Blocks;

enum Fact { REFUSED, TAKEN_MEANWHILE };

/* A mailbox and its takers' lock. */
struct Mail {
    explicit Mail(size_t bytes_) : bytes(bytes_) {
    }
    uint32_t take() {
        hz_lock_acquire(&lock);
        uint32_t count = model::take_word(&heap.ledger, hz_mail_take(unit::self(), &mail), bytes);
        hz_lock_release(&lock);
        return count;
    }
    void send(const Blocks &blocks) {
        struct hz_list list = model::list_of(blocks);
        for (void *block : blocks)
            heap.ledger.given(block);
        if (hz_mail_send(unit::self(), &mail, hz_class_of(bytes), &list)) {
            sent += list.count;
            return;
        }
        model::reached(REFUSED);
        for (void *block : blocks) {
            heap.ledger.taken(block, bytes);
            left.push_back(block);
        }
    }
    size_t bytes;
    struct hz_mailbox mail = {};
    struct hz_lock lock = HZ_LOCK_INIT(HZ_RANK_OUTER);
    model::Heap heap;
    uint32_t sent = 0;
    Blocks left; /* refused */
};

void send_and_take(unsigned senders, unsigned lists, unsigned takers, size_t bytes) {
    Mail mail(bytes);
    Blocks blocks = mail.heap.take_many(senders * lists, bytes);
    std::vector<uint32_t> got(takers + 1);
    std::vector<std::function<void()>> bodies;
    for (unsigned sender = 0; sender < senders; sender++)
        bodies.emplace_back([&, sender] {
            for (unsigned list = 0; list < lists; list++)
                mail.send({blocks[sender * lists + list]});
        });
    for (unsigned taker = 0; taker < takers; taker++)
        bodies.emplace_back([&, taker] {
            for (unsigned tries = 0; tries < 4; tries++)
                got[taker] += mail.take();
            if (got[taker] > 0)
                model::reached(TAKEN_MEANWHILE);
        });
    model::together(bodies);
    for (unsigned empty = 0; empty < 2;) {
        uint32_t count = mail.take();
        got[takers] += count;
        empty += count == 0;
    }
    for (void *block : blocks) { /* take blocks that were too few to queue their page */
        struct hz_page *page = hz_page_of(block);
        auto *remote = reinterpret_cast<struct hz_mpsc *>(&page->remote);
        if (hz_mpsc_count(remote) < std::min<uint32_t>(HZ_PAGE_LOCAL_THRESHOLD, page->capacity))
            got[takers] += model::take_word(&mail.heap.ledger, hz_mpsc_take(remote), bytes);
    }
    uint32_t sum = 0;
    for (uint32_t count : got)
        sum += count;
    MODEL_CHECK(sum == mail.sent);
    MODEL_CHECK(sum + mail.left.size() == blocks.size());
    mail.heap.give_all(blocks);
    model::check_nothing_is_lost(mail.heap);
}

constexpr size_t MIDDLE = 1024; /* four blocks fit into a stash, an inbox or central */

constexpr const char *edges =
    "stash-publish transfer-publish central-publish notes-publish inbox-publish page-remote pageq-publish lock";

TEST(Mail, SendersAndATaker) {
    model::Explored found = model::explore(edges, 400, [] { send_and_take(2, 4, 1, MIDDLE); });
    EXPECT_GT(found.facts[TAKEN_MEANWHILE], 0U);
}

/* Blocks of three pages. */
TEST(Mail, LargeBlocks) {
    model::explore(edges, 400, [] { send_and_take(3, 4, 1, model::PAGED); });
}

TEST(Mail, SendersAndTakersUnderALock) {
    model::explore(edges, 300, [] { send_and_take(2, 4, 2, MIDDLE); });
}

/* Fifteen lists are more than an inbox holds, and more than stash, transfer and central hold together. The queue of
   pages refuses nothing. */
TEST(Mail, Full) {
    model::Explored found = model::explore(edges, 300, [] { send_and_take(3, 5, 1, model::PAGED); });
    if (unit::mail() != unit::Mail::pages) {
        EXPECT_GT(found.facts[REFUSED], 0U);
    }
}

} // namespace
