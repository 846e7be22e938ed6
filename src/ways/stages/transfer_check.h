/*
 * transfer_check.h - checks that a list that lay in transfer is still what the sender put there.
 */
#ifndef HZ_WAYS_STAGES_TRANSFER_CHECK_H
#define HZ_WAYS_STAGES_TRANSFER_CHECK_H

#include "heap/knobs.h"
#include "list.h"

#define HZ_TEXT_TRANSFER "corrupt list in transfer at:"

enum { HZ_TRANSFER_CHECKED = HZ_TRANSFER_FAILFAST == 1 || HZ_CONFIG_CHECKS == 1 };

/* Ends the program unless the list that was taken has exactly as many blocks as its count says. Names the last sound
   block. */
void hz_transfer_check(hz_list_word word);

#endif
