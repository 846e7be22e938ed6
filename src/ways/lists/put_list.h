/*
 * put_list.h - puts lists into the pages.
 */
#ifndef HZ_WAYS_LISTS_PUT_LIST_H
#define HZ_WAYS_LISTS_PUT_LIST_H

#include "heap/pages/shard.h"
#include "list.h"

/* Puts a list of one class into the pages of the shard. Returns the pages retired. Blocks of other shards go into
   `strays`. Needs the shard's exclusive. */
uint32_t hz_list_put_locked(struct hz_shard *shard, hz_list_word word, struct hz_list *strays);

/* Puts a list of one class that is meant for `shard` but does not go through its mailbox. Any thread, holding no
   lock. */
void hz_list_put(struct hz_thread_block *self, struct hz_shard *shard, const struct hz_list *list);

/* Puts the strays of the calls above. Any thread, holding no lock. */
void hz_strays_put(struct hz_thread_block *self, const struct hz_list *strays);

#endif
