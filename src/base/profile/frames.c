/*
 * frames.c - see frames.h.
 */
#define _GNU_SOURCE
#include "base/profile/frames.h"

#include "base/os/atomic.h"
#include "base/os/os.h"

#include <dlfcn.h>
#include <unwind.h>

enum {
    ROOT_CALLS = 3,    /* the outermost calls of a thread, which last as long as it */
    CODE_BITS = 48,    /* above these bits of a return address arm64 can have a signature */
    CODE_BEGIN = 4096, /* no code lies below */
};

typedef _Unwind_Reason_Code backtrace_function(_Unwind_Trace_Fn, void *);
typedef uintptr_t get_function(struct _Unwind_Context *);
typedef uintptr_t get_register_function(struct _Unwind_Context *, int);

static struct {
    backtrace_function *backtrace;
    get_function *get_address;
    get_function *get_stack; /* the stack pointer of the call */
    get_register_function *get_register;
    uintptr_t own_begin, own_end;
} unwind_by; /* const after publish */

enum { STACK_NEW, STACK_UNKNOWN, STACK_KNOWN }; /* what `stack_end` is or is at least */

struct stack_call {
    uintptr_t address;
    uintptr_t frame; /* the frame pointer's register in it: tells one call of a function from another */
};

/* owner, all */
static HZ_TLS uintptr_t stack_begin;
static HZ_TLS uintptr_t stack_end;                      /* or STACK_NEW, STACK_UNKNOWN */
static HZ_TLS struct stack_call root_calls[ROOT_CALLS]; /* the innermost of them first */

/* ---- start ------------------------------------------------------------------------------------------- */

/* Where the thread's stack is. The C library would take a lock to tell, which may be held just now: it allocates under
   it. A mapping can reach beyond the end of a stack. But the thread's own variables lie between, in the same memory. */
static void stack_find(bool is_first) {
    struct hz_os_mapping stack;
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    uintptr_t variable = (uintptr_t)&stack_end;
    if (!hz_os_mapping_of(here, &stack)) {
        stack_end = STACK_UNKNOWN;
        return;
    }
    size_t limit = is_first ? hz_os_stack_limit() : SIZE_MAX;
    stack_begin = stack.begin;
    if (limit < stack.end) /* the first stack grows when it is used */
        stack_begin = hz_max(stack.below_end, stack.end - limit);
    stack_end = variable > here && variable < stack.end ? variable : stack.end;
}

/* dlsym returns an object pointer, which C does not convert to a function pointer. */
#define FRAMES_FIND(library, function, name) (*(void **)&(function) = dlsym(library, name), (function) != NULL)

bool hz_frames_start(uintptr_t own_begin, uintptr_t own_end) {
    void *library = HZ_FRAME_REGISTER != 0 ? dlopen("libgcc_s.so.1", RTLD_NOW | RTLD_NOLOAD) : NULL;
    if (library == NULL)
        return false;
    unwind_by.own_begin = own_begin;
    unwind_by.own_end = own_end;
    stack_find(true);
    /* the handle is kept, so that the library stays */
    return stack_end >= STACK_KNOWN && FRAMES_FIND(library, unwind_by.backtrace, "_Unwind_Backtrace") &&
           FRAMES_FIND(library, unwind_by.get_address, "_Unwind_GetIP") &&
           FRAMES_FIND(library, unwind_by.get_stack, "_Unwind_GetCFA") &&
           FRAMES_FIND(library, unwind_by.get_register, "_Unwind_GetGR");
}

/* ---- by the tables ----------------------------------------------------------------------------------- */

struct frame_walk {
    void **addresses;
    uint32_t room;
    uint32_t depth;
    uint32_t seen;                      /* number of calls so far; `last` has the last ROOT_CALLS of them */
    struct stack_call last[ROOT_CALLS]; /* by number, modulo ROOT_CALLS */
    uintptr_t frame;                    /* the frame pointer of the program's innermost call */
    uintptr_t stack;                    /* its stack pointer; 0: none was found */
};

static _Unwind_Reason_Code step_by_tables(struct _Unwind_Context *context, void *argument) {
    struct frame_walk *walk = argument;
    struct stack_call call = {.address = unwind_by.get_address(context),
                              .frame = unwind_by.get_register(context, HZ_FRAME_REGISTER)};
    if (call.address == 0)
        return _URC_END_OF_STACK;
    if (walk->depth == walk->room) /* the walk does not reach the outermost calls */
        return _URC_NORMAL_STOP;
    walk->last[walk->seen++ % ROOT_CALLS] = call;
    walk->addresses[walk->depth++] = (void *)call.address; /* NOLINT */
    return _URC_NO_REASON;
}

static uint32_t take_by_tables(void **addresses, uint32_t room) {
    struct frame_walk walk = {.addresses = addresses, .room = room};
    (void)unwind_by.backtrace(step_by_tables, &walk); /* however it ends, `walk` has the calls so far */
    if (walk.depth < room && walk.seen >= ROOT_CALLS)
        for (uint32_t i = 0; i < ROOT_CALLS; i++)
            root_calls[i] = walk.last[(walk.seen + i) % ROOT_CALLS];
    return walk.depth;
}

/* ---- by frame pointers ------------------------------------------------------------------------------- */

/* Walks out of the library's own calls, and stops at the program's innermost one. */
static _Unwind_Reason_Code step_own(struct _Unwind_Context *context, void *argument) {
    struct frame_walk *walk = argument;
    uintptr_t address = unwind_by.get_address(context);
    if (address == 0 || walk->depth == walk->room)
        return _URC_NORMAL_STOP;
    walk->addresses[walk->depth++] = (void *)address; /* NOLINT */
    if (address - unwind_by.own_begin < unwind_by.own_end - unwind_by.own_begin)
        return _URC_NO_REASON;
    walk->frame = unwind_by.get_register(context, HZ_FRAME_REGISTER);
    walk->stack = unwind_by.get_stack(context);
    return _URC_NORMAL_STOP;
}

/* The number of the root's call that goes on at `address` with `frame` in its register; ROOT_CALLS: it is none of them.
   Two calls with the same frame are the same, and so are their callers. */
static uint32_t root_find(uintptr_t address, uintptr_t frame) {
    for (uint32_t i = 0; i < ROOT_CALLS; i++)
        if (root_calls[i].address == address && root_calls[i].frame == frame)
            return i;
    return ROOT_CALLS;
}

/* Follows the chain from walk->frame. True if it leads to one of root_calls, or fills the room. */
HZ_NO_ASAN static bool chain_follow(struct frame_walk *walk) {
    uintptr_t lowest = walk->stack;
    uintptr_t frame = walk->frame;
    while (walk->depth < walk->room) {
        bool is_inside = frame >= lowest && frame < stack_end && stack_end - frame >= 2 * sizeof(uintptr_t);
        if (!is_inside || frame % sizeof(uintptr_t) != 0)
            return false;
        const uintptr_t *record = (const uintptr_t *)frame; /* NOLINT: the caller's frame pointer, the return address */
        uintptr_t address = record[1] & ((UINT64_C(1) << CODE_BITS) - 1);
        if (address < CODE_BEGIN)
            return false;
        walk->addresses[walk->depth++] = (void *)address; /* NOLINT */
        uint32_t found = root_find(address, record[0]);
        for (uint32_t i = found + 1; i < ROOT_CALLS && walk->depth < walk->room; i++)
            walk->addresses[walk->depth++] = (void *)root_calls[i].address; /* NOLINT */
        if (found < ROOT_CALLS)
            return true;
        lowest = frame + 2 * sizeof(uintptr_t);
        frame = record[0];
    }
    return true;
}

static bool take_by_frames(struct frame_walk *walk) {
    if (stack_end < STACK_KNOWN || root_calls[ROOT_CALLS - 1].address == 0)
        return false;
    (void)unwind_by.backtrace(step_own, walk);
    bool is_on_stack = walk->stack >= stack_begin && walk->stack < stack_end; /* also false for 0 */
    return is_on_stack && chain_follow(walk);
}

uint32_t hz_frames_take(void **addresses, uint32_t room) {
    struct frame_walk walk = {.addresses = addresses, .room = room};
    if (stack_end == STACK_NEW)
        stack_find(false);
    return take_by_frames(&walk) ? walk.depth : take_by_tables(addresses, room);
}
