/*
 * box.c - see box.h.
 */
#include "box.h"

#include "base/os/anatomy.h"

struct hz_boxes hz_boxes[HZ_NUM_SHARDS];

HZ_ANATOMY(boxes, HZ_ANATOMY_OBJECT(boxes, hz_boxes), HZ_ANATOMY_SIZE(hz_boxes), HZ_ANATOMY_FIELD(hz_boxes, classes),
           HZ_ANATOMY_SIZE(hz_box), HZ_ANATOMY_FIELD(hz_box, mail), HZ_ANATOMY_FIELD(hz_box, carry),
           HZ_ANATOMY_NUMBER(HZ_LIST_COUNT_SHIFT));

/* A mark is a hint. Relaxed, in all functions below: if a drain misses a mark that is set at the same time, the blocks
 * wait for the next thread's refill, or for a purge; both ignore marks. */
static uint64_t class_bit(unsigned size_class) {
    return UINT64_C(1) << (size_class % 64);
}

bool hz_box_was_sent(const struct hz_shard *shard, unsigned size_class) {
    struct hz_boxes *boxes = &hz_boxes[shard->index];
    uint64_t marks = hz_load_rlx(&boxes->sent[size_class / 64]) | hz_load_rlx(&boxes->waiting[size_class / 64]);
    return (marks & class_bit(size_class)) != 0;
}

void hz_box_mark_sent(const struct hz_shard *shard, unsigned size_class) {
    struct hz_boxes *boxes = &hz_boxes[shard->index];
    if ((hz_load_rlx(&boxes->sent[size_class / 64]) & class_bit(size_class)) == 0)
        hz_or_rlx(&boxes->sent[size_class / 64], class_bit(size_class));
}

static void bit_clear(_Atomic(uint64_t) *words, unsigned size_class) {
    if ((hz_load_rlx(&words[size_class / 64]) & class_bit(size_class)) != 0)
        hz_and_rlx(&words[size_class / 64], ~class_bit(size_class));
}

void hz_box_forget_sent(const struct hz_shard *shard, unsigned size_class) {
    struct hz_boxes *boxes = &hz_boxes[shard->index];
    bit_clear(boxes->sent, size_class);
    bit_clear(boxes->waiting, size_class);
    bit_clear(boxes->due, size_class);
}

void hz_box_age_sent(const struct hz_shard *shard) {
    struct hz_boxes *boxes = &hz_boxes[shard->index];
    for (unsigned word = 0; word < HZ_CLASS_WORDS; word++) {
        uint64_t sent = hz_load_rlx(&boxes->sent[word]);
        uint64_t waiting = hz_load_rlx(&boxes->waiting[word]);
        if ((sent | waiting) == 0)
            continue;
        hz_store_rlx(&boxes->due[word], waiting & ~sent);
        hz_or_rlx(&boxes->waiting[word], sent); /* first, so that the class has a mark at each instant */
        hz_and_rlx(&boxes->sent[word], ~sent);
    }
}

unsigned hz_box_due(const struct hz_shard *shard) {
    struct hz_boxes *boxes = &hz_boxes[shard->index];
    for (unsigned word = 0; word < HZ_CLASS_WORDS; word++) {
        uint64_t due = hz_load_rlx(&boxes->due[word]);
        if (due != 0)
            return word * 64 + (unsigned)__builtin_ctzll(due);
    }
    return HZ_CLASS_NONE;
}
