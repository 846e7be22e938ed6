/*
 * policy.h - the constants of policy.def.
 */
#ifndef HZ_POLICY_H
#define HZ_POLICY_H

enum {
#define POLICY(name, value, unit, decision, what) name = (value),
#define BOUND(name, bytes, thread_bytes, most, share, when)
#include "policy.def"
};

#endif
