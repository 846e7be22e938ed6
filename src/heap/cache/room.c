/*
 * room.c - see room.h. Called by the slow paths of malloc and free.
 *
 * A bin begins with room for a few blocks, so that a thread which uses a class once takes few from its pages. Each
 * visit doubles it up to hz_bin_start. Above that it doubles when a thread visits the slow paths several times in
 * a row for the same class. If one class or a few carry everything, trips to the depot become rare. If a thread
 * alternates between many classes, few visits are for the same class as the visit before, and the thread keeps less of
 * each class. Room shrinks when the bin is idle or its class sparse. The next thread that gets the thread block
 * inherits it.
 */
#include "heap/cache/room.h"

#include "heap/pages/density.h"

enum { SPARSE_ROOM = 8 }; /* blocks */

static void grow_to(struct hz_thread_block *self, unsigned size_class, uint32_t room) {
    hz_bin_room_set(&self->cache, size_class, (uint32_t)hz_min(room, hz_bin_capacity(size_class)));
}

void hz_room_visit(struct hz_thread_block *self, unsigned size_class) {
    if (size_class != self->streak_class) {
        self->streak_class = (uint8_t)size_class;
        self->streak = 0;
    }
    uint32_t room = hz_bin_room(&self->cache, size_class);
    if (++self->streak >= HZ_BIN_STREAK) {
        self->streak = 0;
        grow_to(self, size_class, 2 * room);
    } else if (room < hz_bin_start(size_class)) {
        grow_to(self, size_class, (uint32_t)hz_min(2 * room, hz_bin_start(size_class)));
    }
}

void hz_room_shrink(struct hz_thread_block *self, unsigned index) {
    if (index == HZ_REMOTE_BIN)
        return;
    hz_assert(hz_bin_held(&self->cache, index) == 0);
    uint32_t room = hz_bin_room(&self->cache, index);
    if (hz_class_is_sparse(index))
        hz_bin_room_set(&self->cache, index, (uint32_t)hz_min(room, SPARSE_ROOM));
    else
        hz_bin_room_set(&self->cache, index, (uint32_t)hz_max(room / 2 & ~1U, hz_bin_first(index)));
}

uint32_t hz_room_batch(const struct hz_thread_block *self, unsigned size_class) {
    return (uint32_t)hz_min(hz_bin_room(&self->cache, size_class) / 2, HZ_BATCH_COUNT);
}

void hz_room_ensure(struct hz_thread_block *self, unsigned size_class, uint32_t count) {
    if (count > hz_bin_room(&self->cache, size_class))
        grow_to(self, size_class, count + count % 2);
}
