/*
 * transfer_check.c - whether a list that lay in transfer is still what was put there. See transfer.h.
 */
#include "base/arena.h"
#include "base/check.h"
#include "transfer.h"

void hz3_transfer_check(hz_list_word word) {
    const void *block = hz_list_word_head(word);
    const void *sound = block;
    bool is_ours = hz_segment_find(block) != NULL; /* then all are: a wild link is not followed */
    for (uint32_t left = hz_list_word_count(word); left > 0; left--) {
        if (block == NULL || (is_ours && hz_segment_find(block) == NULL)) /* it ends too early, or leads nowhere */
            hz_fail_pointer(HZ_TEXT_TRANSFER, sound);
        sound = block;
        block = hz_block_next(block);
    }
    if (word != 0 && block != NULL) /* it goes on */
        hz_fail_pointer(HZ_TEXT_TRANSFER, sound);
}
