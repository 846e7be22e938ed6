/*
 * thread_exit.pml - the last thread of a shard ends while other threads send to the shard and another one claims it:
 * hz_shard_send, hz_shard_leave, hz_shard_claim and hz_heap_purge in src/heap.
 *
 * A sender to a shard with threads sends to the mailbox and sets the mark. A sender to a shard without threads takes
 * the lock and puts the block into its page. The last thread that leaves drains the shard if the mark is set. Reads of
 * `threads` and of the mark are hints, as in the sources: a sender can be too late, and its block waits. Checked: a
 * block is in one place at a time, pages change only under the lock, and after all threads have ended a purge finds
 * every block.
 *
 *   BUG_UNLOCKED  a sender to a shard without threads puts its block without the lock
 *   BUG_TWO_STEPS a drain empties the mailbox with a load and a store
 */
#define SENDERS 2
#define BLOCKS  2 /* of each sender */
#define OWNERS  2 /* one has the shard at the start, the other claims it */

byte threads = 1;
byte mail = 0; /* blocks in the mailbox */
byte home = 0; /* blocks in their pages; read and written in two steps */
bool marked = false;
bool locked = false;

inline lock() {
    atomic { !locked -> locked = true }
}

inline unlock() {
    assert(locked);
    locked = false
}

inline put_home(number) {
    before = home;
    home = before + number
}

/* Under the lock. */
inline drain() {
    marked = false;
#ifdef BUG_TWO_STEPS
    count = mail;
    mail = 0;
#else
    atomic { count = mail; mail = 0 }
#endif
    put_home(count)
}

proctype sender() {
    byte left = BLOCKS;
    byte before;
    do
    :: left > 0 ->
        if
        :: threads > 0 ->
            mail++;
            marked = true
        :: threads == 0 ->
#ifdef BUG_UNLOCKED
            put_home(1)
#else
            lock();
            put_home(1);
            unlock()
#endif
        fi;
        left--
    :: else -> break
    od
}

proctype owner(bool claims) {
    byte before, count;
    if
    :: claims ->
        if
        :: atomic { threads == 0 -> threads = 1 }
        :: atomic { threads > 0 -> threads = threads + 1 } /* no shard is free, so the thread shares this one */
        fi
    :: else
    fi;
    if
    :: true -> /* a refill takes sent blocks, which come back later */
        lock();
        drain();
        unlock()
    :: true
    fi;
    if
    :: threads == 1 && marked ->
        lock();
        drain();
        unlock()
    :: else
    fi;
    atomic { threads-- }
}

init {
    byte before, count;
    atomic {
        run owner(false);
        run owner(true);
        run sender();
        run sender()
    }
    (_nr_pr == 1);
    /* the purge */
    lock();
    drain();
    unlock();
    assert(threads == 0);
    assert(mail == 0);
    assert(home == SENDERS * BLOCKS)
}
