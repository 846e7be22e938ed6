/*
 * exclusive.pml - the lock of src/base/lists/lock.c as the consumers of a shard use it (src/heap/pages/shard.c), while a
 * thread joins the shard and a thread of another shard purges it.
 *
 * The lock's word: 0 free, 1 held, 2 held and a thread may sleep. Checked: there is one consumer at a time, `taken` is
 * counted correctly, and no thread sleeps for ever.
 *
 *   BUG_ALONE    the only thread of a shard consumes without the lock
 *   BUG_NO_WAKE  a thread that releases the lock wakes no sleeper
 */
#define CONSUMERS 3 /* the owner, the thread that joins, and the purger */
#define ROUNDS    2
#define OWNER     0
#define JOINER    1
#define PURGER    2

byte word = 0;
bool asleep[CONSUMERS];
byte threads = 1;
byte inside = 0;
byte taken = 0; /* read and written in two steps, as carry and bitmaps are */

inline wait_while_2(self) {
    atomic {
        if
        :: word == 2 -> asleep[self] = true
        :: else
        fi
    }
    !asleep[self]
}

inline acquire(self) {
    atomic {
        if
        :: word == 0 -> word = 1; seen = 0
        :: else -> seen = 1
        fi
    }
    do
    :: seen != 0 ->
        atomic { seen = word; word = 2 }
        if
        :: seen != 0 -> wait_while_2(self)
        :: else
        fi
    :: else -> break
    od
}

inline release() {
    atomic { seen = word; word = 0 }
    if
    :: seen == 2 ->
#ifndef BUG_NO_WAKE
        atomic {
            if
            :: asleep[0] -> asleep[0] = false
            :: asleep[1] -> asleep[1] = false
            :: asleep[2] -> asleep[2] = false
            :: else
            fi
        }
#else
        skip
#endif
    :: else
    fi
}

inline consume() {
    inside++;
    assert(inside == 1);
    before = taken;
    taken = before + 1;
    inside--
}

proctype consumer(byte self) {
    byte seen, before;
    byte round = 0;
    bool alone = false;
    if
    :: self == JOINER -> threads++
    :: else
    fi;
    do
    :: round < ROUNDS ->
#ifdef BUG_ALONE
        alone = (self != PURGER && threads == 1);
#endif
        if
        :: alone -> consume()
        :: else ->
            acquire(self);
            consume();
            release()
        fi;
        round++
    :: else -> break
    od
}

init {
    atomic {
        run consumer(OWNER);
        run consumer(JOINER);
        run consumer(PURGER)
    }
    (_nr_pr == 1);
    assert(taken == CONSUMERS * ROUNDS);
    assert(word == 0)
}
