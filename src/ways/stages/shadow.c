/*
 * shadow.c - see shadow.h. The notes of a segment are made when its first block comes onto central: a word for each
 * possible block start.
 *
 * A block's word is 0 while it is not on central, else its link plus 1 (links are multiples of 16, or NULL). Edge
 * "notes-publish": a thread that sees a segment's notes sees them zeroed.
 */
#include "shadow.h"

#include "base/arena/arena.h"
#include "base/map/meta.h"
#include "heap/misuse.h"

enum { SHADOW_WORDS = HZ_SEGMENT_BYTES / HZ_GRANULE_BYTES };

static _Atomic(uintptr_t) *note_of(const void *block) {
    struct hz_segment *segment = hz_segment_find(block);
    if (segment == NULL)
        return NULL;
    _Atomic(uintptr_t) *notes = hz_load_acq(&segment->notes); /* sync: notes-publish, partner notes_make */
    return notes == NULL ? NULL : &notes[((uintptr_t)block & (HZ_SEGMENT_BYTES - 1)) / HZ_GRANULE_BYTES];
}

static void notes_make(struct hz_segment *segment) {
    _Atomic(uintptr_t) *none = NULL;
    _Atomic(uintptr_t) *made = hz_meta_alloc(SHADOW_WORDS * sizeof(*made));
    /* sync: notes-publish, partner note_of. The loser of a race wastes its words, which is fine when debugging */
    if (made != NULL)
        (void)hz_cas_strong_ar_acq(&segment->notes, &none, made);
}

void hz_shadow_prepare(const struct hz_list *list) {
    const void *block = list->head;
    for (uint32_t left = list->count; left > 0; left--) {
        struct hz_segment *segment = hz_segment_find(block);
        if (segment != NULL && hz_load_rlx(&segment->notes) == NULL) /* relaxed: hint */
            notes_make(segment);
        block = left > 1 ? hz_block_next(block) : NULL;
    }
}

void hz_shadow_add(const struct hz_list *list) {
    const void *block = list->head;
    for (uint32_t left = list->count; left > 0; left--) {
        const void *next = hz_block_next(block);
        _Atomic(uintptr_t) *note = note_of(block);
        if (note != NULL) {
            if (hz_load_rlx(note) != 0) /* relaxed, both: the holder of a block owns its note */
                hz_misuse(HZ_TEXT_TWICE, block, HZ_FOUND_LATER);
            hz_store_rlx(note, (uintptr_t)next + 1);
        }
        block = next;
    }
}

void hz_shadow_remove(hz_list_word word) {
    const void *block = hz_list_word_head(word);
    for (uint32_t left = hz_list_word_count(word); left > 0; left--) {
        const void *next = hz_block_next(block);
        _Atomic(uintptr_t) *note = note_of(block);
        if (note != NULL) {
            uintptr_t noted = hz_load_rlx(note);            /* relaxed, both: as in hz_shadow_add */
            if (noted != 0 && noted != (uintptr_t)next + 1) /* 0: the block came before there was memory for notes */
                hz_misuse(HZ_TEXT_REWRITTEN, block, HZ_FOUND_LATER);
            hz_store_rlx(note, 0);
        }
        block = next;
    }
}
