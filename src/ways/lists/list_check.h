/*
 * list_check.h - checks that a list of free blocks is intact.
 */
#ifndef HZ_WAYS_LISTS_LIST_CHECK_H
#define HZ_WAYS_LISTS_LIST_CHECK_H

#include "heap/knobs.h"

#include "base/os/compiler.h"

enum { HZ_LISTS_CHECKED = HZ_LIST_FAILFAST == 1 || HZ_CONFIG_CHECKS == 1 };

/* Ends the program unless `count` blocks of the class are linked one to the next from `head`. Names the block whose
   link is wrong, or the head if the head itself is wrong. Does not look past the last block. The caller owns the list.
 */
void hz_list_check(unsigned size_class, const void *head, uint32_t count);

#endif
