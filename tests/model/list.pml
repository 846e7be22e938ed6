/*
 * list.pml - the list with many senders and a taker: src/ways/lists/mpsc.h.
 *
 * The word is head and count, which change in one step. Links are written separately. A block returns to its sender, so
 * addresses come back too. Checked: a walk by the count finds only blocks that were sent, each once, and never a link
 * that leads nowhere. At the end every block has arrived as often as it was sent.
 *
 *   BUG_NO_RELINK  after a failed compare-and-swap the sender does not link its tail again
 *   BUG_POP        two takers pop single blocks without a lock
 */
#define SENDERS 3
#define ROUNDS  2
#define NONE    255

byte head = NONE;
byte count = 0;
byte link[SENDERS] = NONE; /* each sender has one block */
bool queued[SENDERS];
byte arrived = 0;

proctype sender(byte block) {
    byte round = 0;
    byte seen_head, seen_count;
    bool done;
    do
    :: round < ROUNDS ->
        !queued[block]; /* the taker has returned the block */
        atomic { seen_head = head; seen_count = count }
        done = false;
#ifdef BUG_NO_RELINK
        link[block] = seen_head;
#endif
        do
        :: !done ->
#ifndef BUG_NO_RELINK
            link[block] = seen_head;
#endif
            atomic {
                if
                :: head == seen_head && count == seen_count ->
                    head = block;
                    count = seen_count + 1;
                    queued[block] = true;
                    done = true
                :: else ->
                    seen_head = head;
                    seen_count = count
                fi
            }
        :: done -> break
        od;
        round++
    :: else -> break
    od
}

/* The block has arrived, so its sender can use it again. */
inline arrive(block) {
    atomic {
        assert(block != NONE);
        assert(queued[block]);
        queued[block] = false;
        arrived++
    }
}

#ifdef BUG_POP

proctype taker() {
    byte seen_head, seen_count, next;
    do
    :: arrived < SENDERS * ROUNDS ->
        atomic { seen_head = head; seen_count = count }
        if
        :: seen_count > 0 ->
            next = link[seen_head];
            atomic {
                if
                :: head == seen_head && count == seen_count ->
                    head = next;
                    count = seen_count - 1
                :: else -> seen_count = 0
                fi
            }
            if
            :: seen_count > 0 -> arrive(seen_head)
            :: else
            fi
        :: else -> (count > 0 || arrived == SENDERS * ROUNDS)
        fi
    :: else -> break
    od
}

#else

proctype taker() {
    byte block, left, next;
    do
    :: arrived < SENDERS * ROUNDS ->
        count > 0;
        atomic { block = head; left = count; head = NONE; count = 0 }
        do
        :: left > 0 ->
            assert(block != NONE);
            next = link[block]; /* read before the block arrives: from then on it belongs to its sender */
            arrive(block);
            block = next;
            left--
        :: else -> break
        od
    :: else -> break
    od
}

#endif

init {
    atomic {
        byte i = 0;
        do
        :: i < SENDERS ->
            run sender(i);
            i++
        :: else -> break
        od;
        run taker()
#ifdef BUG_POP
        ;
        run taker()
#endif
    }
}
