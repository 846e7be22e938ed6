/*
 * shim_hz4.c - see shim.h. Nothing here decides anything.
 */
#include "unit/hz4/shim.h"

#include "core/core.h"

struct unit_hz4_counters unit_hz4_counters_of(struct hz_thread_block *thread) {
    struct hz_counters *counters = &thread->counters;
#define COUNTER(group, field, name, kind, text) .field = hz_load_rlx(&counters->field),
    return (struct unit_hz4_counters){
#include "engine_counters.def"
    };
#undef COUNTER
}

struct hz_pageq *unit_mailbox_pages(struct hz_mailbox *mail) {
    return &mail->pages;
}

struct hz_page *unit_pageq_head_set(struct hz_pageq *queue, struct hz_page *page) {
    struct hz_page *before = hz_load_rlx(&queue->head);
    hz_store_rlx(&queue->head, page);
    return before;
}
