/*
 * misuse.c - see misuse.h. Reads page tags only, since the block may lie anywhere.
 */
#include "heap/misuse.h"

#include "heap/sizeclass.h"

void hz_misuse(const char *text, const void *block, const char *found) {
    struct hz_line line;
    unsigned size_class = hz_pagetag_class(block);
    hz_line_begin(&line, text, block);
    hz_line_add(&line, " (");
    if (size_class == HZ_CLASS_LARGE) {
        hz_line_add(&line, "large, ");
    } else if (size_class != HZ_CLASS_NONE && size_class < HZ_CLASS_COUNT) {
        hz_line_add_number(&line, hz_class_bytes(size_class));
        hz_line_add(&line, " bytes, shard ");
        hz_line_add_number(&line, hz_pagetag_owner(block));
        hz_line_add(&line, ", ");
    }
    hz_line_add(&line, found);
    hz_line_add(&line, ")");
    hz_line_fail(&line);
}
