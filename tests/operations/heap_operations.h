/*
 * heap_operations.h - operations on blocks: allocate, resize, free, hand over, verify. Each takes its parameters from
 * the actor's source.
 */
#ifndef HZ_TESTS_OPERATIONS_HEAP_OPERATIONS_H
#define HZ_TESTS_OPERATIONS_HEAP_OPERATIONS_H

#include "contract/api.h"
#include "operations/world.h"

namespace operations {

inline size_t size_of_kind(Actor &actor, size_t kind) {
    if (kind < 96)
        return actor.below(256);
    if (kind < 152)
        return actor.below(1025);
    if (kind < 192) { /* around a power of two, up to 2 MiB */
        size_t power = size_t{16} << actor.below(18);
        return power - 1 + actor.below(3);
    }
    if (kind < 224)
        return actor.between(KiB, 8 * KiB);
    if (kind < 244)
        return actor.between(8 * KiB, 64 * KiB + 1);
    if (kind < 253)
        return actor.between(64 * KiB, 512 * KiB);
    if (kind < 255 || actor.below(16) != 0)
        return actor.between(512 * KiB, 6 * MiB);
    return actor.between(6 * MiB, 70 * MiB);
}

/* Always small once the actor holds much. */
inline void hold(Actor &actor, const Block &block) {
    actor.held_bytes += block.taken;
    actor.unsure_bytes += block.unsure();
}

inline void let_go(Actor &actor, const Block &block) {
    actor.held_bytes -= block.taken;
    actor.unsure_bytes -= block.unsure();
}

inline size_t bounded(const Actor &actor, size_t size) {
    bool fits = actor.held_bytes + size <= actor.world->settings.held_bytes_max;
    return fits ? size : size % 64;
}

/* Mostly small. */
inline size_t pick_size(Actor &actor) {
    return bounded(actor, size_of_kind(actor, actor.below(256)));
}

inline void verify(Actor &actor, const Block &block) {
    actor.require(block_holds(block, block.address, block.size), "contents were damaged", block.size);
}

/* Puts a block that the allocator returned into an empty slot, after checks. NULL is allowed under a limit. */
inline void accept(Actor &actor, Block &slot, void *address, size_t size, size_t alignment, Origin origin,
                   uint64_t limits_before) {
    if (address == nullptr) {
        actor.require(actor.world->limits.may_fail_since(limits_before), "NULL without a limit", size);
        return;
    }
    actor.require(support::aligned_to(address, std::max<size_t>(alignment, 16)), "wrong alignment", size);
    size_t usable = actor.api().usable_size_fn(address);
    actor.require(usable >= size, "usable size below the size", size);
    uint64_t id = support::mix(actor.index << 40 | actor.made++);
    slot = {address, size, size, usable, alignment, id, origin, support::taken_by(address)};
    hold(actor, slot);
    block_fill(slot);
}

/* Verifies the slot's block before it leaves the actor; the slot is empty afterwards. */
inline Block give_up(Actor &actor, Block &slot) {
    Block block = slot;
    slot = {};
    if (block.address == nullptr)
        return block;
    actor.require(actor.api().usable_size_fn(block.address) == block.usable, "the usable size changed", block.size);
    verify(actor, block);
    let_go(actor, block);
    return block;
}

/* Frees with one of the functions that may free such a block. */
inline void free_block(const t_entries &api, const Block &block, size_t way) {
    if (block.origin == Origin::object) {
        if (block.alignment > 16)
            ::operator delete (block.address, std::align_val_t{block.alignment});
        else if (way == 0)
            ::operator delete(block.address);
        else
            ::operator delete(block.address, block.asked);
    } else if (way == 1 && block.origin == Origin::plain && api.free_sized_fn != nullptr) {
        api.free_sized_fn(block.address, block.asked);
    } else if (way == 1 && block.origin == Origin::aligned && api.free_aligned_sized_fn != nullptr) {
        api.free_aligned_sized_fn(block.address, block.alignment, block.asked);
    } else {
        api.free_fn(block.address);
    }
}

/* Verifies and frees; an empty slot means free(NULL). */
inline void release(Actor &actor, Block &slot) {
    Block block = give_up(actor, slot);
    errno = 77;
    free_block(actor.api(), block, block.address == nullptr ? 0 : block.id % 2);
    actor.require(errno == 77, "free changed errno", block.size);
}

inline void allocate_plain(Actor &actor, Block &slot, size_t size) {
    uint64_t before = actor.world->limits.now();
    void *address = actor.api().malloc_fn(size);
    accept(actor, slot, address, size, 1, Origin::plain, before);
}

inline void do_malloc(Actor &actor) {
    Block &slot = actor.pick_slot();
    release(actor, slot);
    size_t size = pick_size(actor);
    allocate_plain(actor, slot, size);
    const t_entries &api = actor.api();
    if (slot.address != nullptr && api.good_size_fn != nullptr)
        actor.require(support::usable_fits(slot.usable, size), "usable size is not the good size", size);
}

inline void do_calloc(Actor &actor) {
    Block &slot = actor.pick_slot();
    release(actor, slot);
    size_t count = 1 + actor.below(8);
    size_t each = pick_size(actor) / count;
    uint64_t before = actor.world->limits.now();
    void *address = actor.api().calloc_fn(count, each);
    if (address != nullptr)
        actor.require(support::is_zero(address, count * each), "calloc gave bytes that are not zero", count * each);
    accept(actor, slot, address, count * each, 1, Origin::plain, before);
}

inline void do_aligned(Actor &actor) {
    Block &slot = actor.pick_slot();
    release(actor, slot);
    const t_entries &api = actor.api();
    size_t way = actor.below(8);
    size_t alignment = sizeof(void *) << (actor.below(16) == 0 ? actor.below(20) : actor.below(10));
    size_t size = pick_size(actor);
    uint64_t before = actor.world->limits.now();
    void *address = nullptr;
    Origin origin = Origin::other;
    if (way < 3) {
        address = api.aligned_alloc_fn(alignment, size);
        origin = Origin::aligned;
    } else if (way < 6) {
        errno = 77;
        int error = api.posix_memalign_fn(&address, alignment, size);
        actor.require((error == 0) == (address != nullptr), "posix_memalign: error and address contradict", size);
        /* glibc's changes errno now and then, also where it succeeds; ours never does. */
        actor.require(!t_ours() || errno == 77, "posix_memalign changed errno", size);
    } else if (way == 6) {
        address = api.memalign_fn(alignment, size);
    } else {
        alignment = page_bytes;
        address = size % 2 == 0 ? api.valloc_fn(size) : api.pvalloc_fn(size);
    }
    accept(actor, slot, address, size, alignment, origin, before);
}

inline void do_new(Actor &actor) {
    Block &slot = actor.pick_slot();
    release(actor, slot);
    size_t way = actor.below(4);
    size_t size = pick_size(actor);
    size_t alignment = way < 3 ? 1 : size_t{32} << actor.below(8);
    uint64_t before = actor.world->limits.now();
    void *address = nullptr;
    if (way < 2)
        address = ::operator new(size, std::nothrow);
    else if (way == 2)
        address = ::operator new[](size, std::nothrow);
    else
        address = ::operator new (size, std::align_val_t{alignment}, std::nothrow);
    accept(actor, slot, address, size, alignment, Origin::object, before);
}

/* realloc(slot, 0) frees the block and returns NULL, as in glibc. */
inline void resize_to_nothing(Actor &actor, Block &slot) {
    Block block = give_up(actor, slot);
    actor.require(actor.api().realloc_fn(block.address, 0) == nullptr, "realloc to 0 returned a block", block.size);
}

/* Near the old size, twice as much, or any. */
inline size_t pick_new_size(Actor &actor, const Block &block) {
    size_t way = actor.below(5);
    if (way == 0)
        return bounded(actor, block.size + block.size / 8 + actor.below(32));
    if (way == 1)
        return block.size - std::min(block.size, block.size / 8 + actor.below(32));
    if (way == 2)
        return bounded(actor, block.size * 2);
    return pick_size(actor);
}

inline void do_realloc(Actor &actor) {
    Block &slot = actor.pick_slot();
    if (slot.address == nullptr || slot.origin == Origin::object) {
        release(actor, slot);
        uint64_t before = actor.world->limits.now();
        size_t size = pick_size(actor);
        accept(actor, slot, actor.api().realloc_fn(nullptr, size), size, 1, Origin::plain, before);
        return;
    }
    size_t size = pick_new_size(actor, slot);
    if (size == 0) {
        resize_to_nothing(actor, slot);
        return;
    }
    size_t parts = size % 4 == 0 ? 4 : 1;
    verify(actor, slot);
    uint64_t before = actor.world->limits.now();
    void *address = parts == 4 ? actor.api().reallocarray_fn(slot.address, parts, size / parts)
                               : actor.api().realloc_fn(slot.address, size);
    if (address == nullptr) {
        actor.require(actor.world->limits.may_fail_since(before), "realloc returned NULL without a limit", size);
        verify(actor, slot);
        return;
    }
    actor.require(block_holds(slot, address, std::min(slot.size, size)), "realloc lost contents", size);
    let_go(actor, slot);
    slot = {};
    accept(actor, slot, address, size, 1, Origin::plain, before);
}

/* One zone for all actors, made by the first that needs it; NULL while there is no memory for it. */
inline struct hz_zone *common_zone(const t_entries &api) {
    static std::atomic<struct hz_zone *> common{nullptr};
    struct hz_zone *zone = common.load();
    if (zone != nullptr)
        return zone;
    struct hz_zone *made = api.zone_create_fn();
    if (common.compare_exchange_strong(zone, made))
        return made;
    api.zone_destroy_fn(made);
    return zone;
}

/* A zone of the actor's own: some of its blocks are resized and freed, and the zone ends with the others. */
inline void use_own_zone(Actor &actor) {
    const t_entries &api = actor.api();
    Block blocks[32] = {};
    struct hz_zone *zone = api.zone_create_fn();
    size_t count = zone != nullptr ? actor.below(std::size(blocks)) : 0;
    for (size_t i = 0; i < count; i++) {
        size_t size = pick_size(actor);
        uint64_t before = actor.world->limits.now();
        accept(actor, blocks[i], api.zone_malloc_fn(zone, size), size, 1, Origin::other, before);
        if (blocks[i].address != nullptr)
            actor.require(api.zone_of_fn(blocks[i].address) == zone, "a block is not of its zone", size);
        if (i % 3 == 0)
            release(actor, blocks[i / 2]);
    }
    for (Block &block : blocks) {
        if (block.address == nullptr)
            continue;
        verify(actor, block);
        let_go(actor, block);
    }
    api.zone_destroy_fn(zone);
}

inline void do_zone(Actor &actor) {
    const t_entries &api = actor.api();
    if (api.zone_create_fn == nullptr)
        return;
    if (actor.below(4) == 0) {
        use_own_zone(actor);
        return;
    }
    Block &slot = actor.pick_slot();
    release(actor, slot);
    struct hz_zone *zone = common_zone(api);
    if (zone == nullptr)
        return;
    size_t size = pick_size(actor);
    bool is_aligned = actor.below(4) == 0;
    size_t alignment = is_aligned ? size_t{16} << actor.below(12) : 1;
    uint64_t before = actor.world->limits.now();
    void *address = is_aligned ? api.zone_aligned_alloc_fn(zone, alignment, size) : api.zone_calloc_fn(zone, 1, size);
    if (address != nullptr && !is_aligned)
        actor.require(support::is_zero(address, size), "a zone's calloc gave bytes that are not zero", size);
    accept(actor, slot, address, size, alignment, Origin::other, before);
}

inline void do_free(Actor &actor) {
    release(actor, actor.pick_slot());
}

inline void do_verify(Actor &actor) {
    const Block &slot = actor.pick_slot();
    if (slot.address != nullptr)
        verify(actor, slot);
}

/* A program may use the whole usable size. */
inline void do_widen(Actor &actor) {
    Block &slot = actor.pick_slot();
    if (slot.address == nullptr)
        return;
    verify(actor, slot);
    slot.size = actor.api().usable_size_fn(slot.address);
    block_fill(slot);
}

/* Requests that must fail, whatever memory there is. */
inline void do_refuse(Actor &actor) {
    const t_entries &api = actor.api();
    size_t huge = SIZE_MAX / 2 + 1 + actor.below(1000);
    size_t way = actor.below(5);
    errno = 0;
    void *address = nullptr;
    int error = ENOMEM;
    if (way == 0)
        address = api.malloc_fn(huge);
    else if (way == 1)
        address = api.calloc_fn(huge / 8, 17);
    else if (way == 2)
        address = api.realloc_fn(nullptr, huge);
    else if (way == 3)
        address = api.aligned_alloc_fn(64, huge);
    else
        errno = api.posix_memalign_fn(&address, 24, 100), error = EINVAL;
    actor.require(address == nullptr && errno == error, "a bad request did not fail as it should", way);
}

inline Actor &pick_other(Actor &actor) {
    return actor.world->actors[actor.below(actor.world->settings.actors)];
}

/* Puts the block into another actor's mailbox; frees it when there is no room, or no other actor. */
inline void send(Actor &actor, Actor &to, Block &slot) {
    Block block = give_up(actor, slot);
    if (block.address == nullptr)
        return;
    actor.world->travelling_bytes.fetch_add(block.taken);
    actor.world->travelling_unsure.fetch_add(block.unsure());
    if (!actor.world->alone && to.mailbox.try_push(block))
        return;
    actor.world->travelling_bytes.fetch_sub(block.taken);
    actor.world->travelling_unsure.fetch_sub(block.unsure());
    free_block(actor.api(), block, 0);
}

inline void do_give(Actor &actor) {
    Actor &to = pick_other(actor);
    send(actor, to, actor.pick_slot());
}

/* Moves a block from the mailbox into a slot. False when there is none. */
inline bool take(Actor &actor, Block &slot) {
    Block block = actor.world->alone ? Block{} : actor.mailbox.try_pop();
    if (block.address == nullptr)
        return false;
    slot = block;
    actor.world->travelling_bytes.fetch_sub(block.taken);
    actor.world->travelling_unsure.fetch_sub(block.unsure());
    hold(actor, slot);
    verify(actor, slot);
    return true;
}

/* Most blocks from the mailbox are freed at once, the others live on here. */
inline void do_take(Actor &actor) {
    Block &kept = actor.pick_slot();
    release(actor, kept);
    size_t count = 1 + actor.below(32);
    Block block = {};
    while (count-- > 0 && take(actor, block))
        release(actor, block);
    take(actor, kept);
}

inline constexpr size_t burst_max = 256;
inline constexpr size_t burst_bytes = 2 * MiB;

/* Many blocks of one class, freed here or by another actor: the way to fill and empty bins, batches and pages. */
inline void do_burst(Actor &actor) {
    Block burst[burst_max] = {};
    size_t size = pick_size(actor) % (32 * KiB);
    size_t count = 1 + actor.below(std::min(burst_max, burst_bytes / (size + 1) + 1));
    size_t order = actor.below(4);
    Actor &to = pick_other(actor);
    for (size_t i = 0; i < count; i++)
        allocate_plain(actor, burst[i], size);
    for (size_t i = 0; i < count; i++) {
        size_t at = order == 0 ? i : count - 1 - i;
        if (order == 3 && i % 2 == 0)
            send(actor, to, burst[at]);
        else if (order == 2 && i % 16 == 0)
            std::swap(burst[at], actor.slots[i]); /* every 16th stays, so pages stay partly used */
        release(actor, burst[at]);
    }
}

inline void do_free_all(Actor &actor) {
    size_t step = 1 + actor.below(4);
    for (size_t i = 0; i < slot_count; i += step)
        release(actor, actor.slots[i]);
}

} // namespace operations

#endif
