/*
 * room.c - how many blocks a bin may hold. Called by the slow paths of malloc and free.
 *
 * Every bin begins with little room. When a thread comes to the slow paths several times in a row for the same class,
 * that class's bin gets twice the room: where one class or a few carry everything, trips to the depot are rare; where
 * many classes are used in turns no class is often the same as the one before, and a thread keeps less of each. Room
 * is not taken back; the next thread that uses the thread block goes on with it.
 */
#include "core/core.h"

static void grow_to(struct hz_thread_block *self, unsigned size_class, uint32_t room) {
    hz_bin_room_set(self, size_class, (uint32_t)hz_min(room, hz_bin_capacity(size_class)));
}

void hz_room_visit(struct hz_thread_block *self, unsigned size_class) {
    if (size_class != self->streak_class) {
        self->streak_class = (uint8_t)size_class;
        self->streak = 0;
    }
    if (++self->streak >= HZ_BIN_STREAK) {
        self->streak = 0;
        grow_to(self, size_class, 2 * hz_bin_room(self, size_class));
    }
}

uint32_t hz_room_batch(const struct hz_thread_block *self, unsigned size_class) {
    return (uint32_t)hz_min(hz_bin_room(self, size_class) / 2, HZ_BATCH_COUNT);
}

void hz_room_for(struct hz_thread_block *self, unsigned size_class, uint32_t count) {
    if (count > hz_bin_room(self, size_class))
        grow_to(self, size_class, count + count % 2);
}
