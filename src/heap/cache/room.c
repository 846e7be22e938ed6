/*
 * room.c - see room.h. Called by the slow paths of malloc and free.
 *
 * Every bin begins with little room. When a thread visits the slow paths several times in a row for the same class,
 * that class's bin gets twice the room. If one class or a few carry everything, trips to the depot become rare. If a
 * thread alternates between many classes, few visits are for the same class as the visit before, and the thread keeps
 * less of each class. Room never shrinks; the next thread that gets the thread block inherits it.
 */
#include "heap/cache/room.h"

static void grow_to(struct hz_thread_block *self, unsigned size_class, uint32_t room) {
    hz_bin_room_set(&self->cache, size_class, (uint32_t)hz_min(room, hz_bin_capacity(size_class)));
}

void hz_room_visit(struct hz_thread_block *self, unsigned size_class) {
    if (size_class != self->streak_class) {
        self->streak_class = (uint8_t)size_class;
        self->streak = 0;
    }
    if (++self->streak >= HZ_BIN_STREAK) {
        self->streak = 0;
        grow_to(self, size_class, 2 * hz_bin_room(&self->cache, size_class));
    }
}

uint32_t hz_room_batch(const struct hz_thread_block *self, unsigned size_class) {
    return (uint32_t)hz_min(hz_bin_room(&self->cache, size_class) / 2, HZ_BATCH_COUNT);
}

void hz_room_ensure(struct hz_thread_block *self, unsigned size_class, uint32_t count) {
    if (count > hz_bin_room(&self->cache, size_class))
        grow_to(self, size_class, count + count % 2);
}
