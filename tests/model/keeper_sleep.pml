/*
 * keeper_sleep.pml - the keeper falls asleep without a timer while threads come to slow paths, another thread ends it, or
 * the process's first thread ends: keeper_sleep, hz_thread_enter, hz_keeper_wake, hz_keeper_note_work, end_tell in
 * src/heap, and hz_life_wait, hz_life_wake in src/base/process/os_life.c. An outsider works without being `busy`, as a thread
 * does that is not attached, and notes afterwards that it has.
 *
 * The keeper sleeps on the word of a robust mutex that the first thread holds: `waiters` is its bit FUTEX_WAITERS, and the
 * kernel sets `died`. Steps are in order here; the barrier makes them so for the threads, which only load and store.
 * Checked: when the keeper sleeps and no thread is in a slow path, no work waits for it; and at its end it has seen it.
 * Work of an outsider does not wait either once the outsider has noted it.
 *
 *   BUG_UNSEEN     the keeper does not look whether a thread is in a slow path
 *   BUG_BIT_FIRST  a thread that wakes clears the mutex's bit before it changes what the keeper looks at
 *   BUG_BIT_KEPT   a thread that wakes leaves the mutex's bit as it is
 *   BUG_DEATH      the keeper does not look at the mutex before it sleeps
 *   BUG_NOTE       the keeper does not look at the note before it sleeps
 *   BUG_NOTE_LATE  the keeper forgets the note after its round
 */
#define THREADS 2
#define VISITS  2 /* slow paths of each thread */

byte work = 0;         /* what slow paths have left for the keeper */
byte busy = 0;         /* threads in slow paths */
byte outside = 0;      /* what outsiders have left for it */
bool missed = false;   /* hz_keeper_missed */
bool sleeps = false;   /* hz_keeper_sleeps */
bool runs = true;      /* state == KEEPER_RUNS */
bool waiters = false;
bool died = false;
bool asleep = false;   /* in the kernel */
byte done = 0;         /* threads that come to no slow path any more */

inline wake_bit() {
#ifndef BUG_BIT_KEPT
    waiters = false;
#endif
    asleep = false
}

/* hz_keeper_wake */
inline wake() {
#ifdef BUG_BIT_FIRST
    waiters = false;
#endif
    if
    :: atomic { sleeps -> sleeps = false };
#ifdef BUG_BIT_FIRST
       asleep = false
#else
       wake_bit()
#endif
    :: else
    fi
}

proctype thread() {
    byte left = VISITS;
    do
    :: left > 0 ->
        busy++;
        if
        :: sleeps -> wake()
        :: else
        fi;
        work++;
        busy--;
        left--
    :: else -> break
    od;
    done++
}

proctype outsider() {
    byte left = VISITS;
    do
    :: left > 0 ->
        outside++;
        if
        :: !missed -> missed = true
        :: else
        fi;
        if
        :: sleeps -> wake()
        :: else
        fi;
        left--
    :: else -> break
    od;
    done++
}

/* Ends the keeper, or is the first thread and dies. */
proctype ender() {
    if
    :: runs = false;
       wake()
    :: atomic {
           died = true;
           if
           :: waiters -> asleep = false
           :: else
           fi
       }
    fi
}

/* hz_life_wait */
inline life_wait() {
    waiters = true;
#ifdef BUG_DEATH
    if
    :: sleeps -> atomic { waiters -> asleep = true };
#else
    if
    :: sleeps && !died ->
        atomic {
            if
            :: waiters && !died -> asleep = true /* the kernel compares the whole word */
            :: else
            fi
        };
#endif
       !asleep
    :: else
    fi
}

proctype keeper() {
    do
    :: runs && !died ->
#ifndef BUG_NOTE_LATE
        missed = false;
#endif
        work = 0; /* a round */
        outside = 0;
#ifdef BUG_NOTE_LATE
        missed = false;
#endif
        sleeps = true;
#ifndef BUG_UNSEEN
        if
        :: busy > 0 -> sleeps = false
        :: else
        fi;
#ifndef BUG_NOTE
        if
        :: missed -> sleeps = false
        :: else
        fi;
#endif
        if
        :: work > 0 -> sleeps = false /* a slow path ended before the barrier: the next round sees that something changed */
        :: else
        fi;
#endif
        do
        :: sleeps && runs && !died -> life_wait()
        :: else -> break
        od;
        sleeps = false
    :: else -> break
    od
}

proctype monitor() {
end:
    atomic { asleep && sleeps && busy == 0 && done == THREADS + 1 -> assert(work == 0 && outside == 0) }
}

init {
    atomic {
        run keeper();
        run thread();
        run thread();
        run outsider();
        run ender();
        run monitor()
    }
}
