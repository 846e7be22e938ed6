/*
 * transfer_check.c - see transfer_check.h.
 */
#include "transfer_check.h"

#include "base/arena/arena.h"
#include "heap/misuse.h"

void hz_transfer_check(hz_list_word word) {
    const void *block = hz_list_word_head(word);
    const void *sound = block;
    bool is_ours = hz_segment_find(block) != NULL; /* if the head is ours, all must be: no wild link is followed */
    for (uint32_t left = hz_list_word_count(word); left > 0; left--) {
        if (block == NULL ||
            (is_ours && hz_segment_find(block) == NULL)) /* the list ends too early, or leaves our memory */
            hz_misuse(HZ_TEXT_TRANSFER, sound, HZ_FOUND_LATER);
        sound = block;
        block = hz_block_next(block);
    }
    if (word != 0 && block != NULL) /* the list goes on beyond its count */
        hz_misuse(HZ_TEXT_TRANSFER, sound, HZ_FOUND_LATER);
}
