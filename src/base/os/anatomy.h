/*
 * anatomy.h - what the library tells readers of core files (command/heap_core.py) about its own structures.
 *
 * A core file has the process's memory, but no types, and often not the library's file. So each module whose structures
 * lead to blocks has an anatomy: an array in its initialised data, which a core file includes. It begins with a magic
 * entry, by which readers find it, and ends with an empty one. The compiler computes the numbers, so they cannot
 * disagree with the code. Readers know the entries by their names, so a field that is renamed here must be renamed in
 * command/heap_core.py too.
 *
 * The arrays are not const, since core files leave out pages that the program cannot have changed. The library itself
 * never reads them.
 */
#ifndef HZ_BASE_OS_ANATOMY_H
#define HZ_BASE_OS_ANATOMY_H

#include "base/os/compiler.h"

enum { HZ_ANATOMY_NAME_ROOM = 48 };

/* The last character is the version of struct hz_anatomy. */
#define HZ_ANATOMY_MAGIC "\177hakozuna anatomy 1"

struct hz_anatomy {
    char name[HZ_ANATOMY_NAME_ROOM];
    union {
        uint64_t number;
        const volatile void *address;
    } value;
    uint64_t bytes; /* of the field or object; 0 for a mere number */
};

_Static_assert(sizeof(struct hz_anatomy) == HZ_ANATOMY_NAME_ROOM + 16, "the layout that readers know");

/* Defines a module's anatomy. */
#define HZ_ANATOMY_BEGIN                                                                                               \
    { HZ_ANATOMY_MAGIC, {.number = sizeof(struct hz_anatomy)}, 0 }
#define HZ_ANATOMY_END                                                                                                 \
    { "", {.number = 0}, 0 }
#define HZ_ANATOMY(module, ...)                                                                                        \
    HZ_KEPT static struct hz_anatomy anatomy_of_##module[] = {HZ_ANATOMY_BEGIN, __VA_ARGS__, HZ_ANATOMY_END}

/* Its entries: an object under a name of its own, a field of a struct that has a tag, the size of such a struct, a
   constant. */
#define HZ_ANATOMY_OBJECT(name, object)                                                                                \
    { #name, {.address = &(object) }, sizeof(object) }
#define HZ_ANATOMY_FIELD(tag, field)                                                                                   \
    { #tag "." #field, {.number = offsetof(struct tag, field) }, sizeof(((struct tag *)NULL)->field) }
#define HZ_ANATOMY_SIZE(tag)                                                                                           \
    { #tag, {.number = sizeof(struct tag) }, 0 }
#define HZ_ANATOMY_NUMBER(constant)                                                                                    \
    { #constant, {.number = (uint64_t)(constant) }, 0 }

#endif
