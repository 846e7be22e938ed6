/*
 * guard_report.h - what the sampling guard says about misuse, and the handler of SIGSEGV that sees it.
 *
 * A report goes to stderr: a line with a stable text and the address, like those of check.h; what is known about the
 * block; and the calls that freed it, allocated it, and touched it now. A process writes one report. After a misuse of
 * free the program aborts. After a bad access, the handler restores the signal's former action and the access faults
 * again, so the program ends by SIGSEGV, or the program's earlier handler gets the signal.
 */
#ifndef HZ_BASE_WATCH_GUARD_REPORT_H
#define HZ_BASE_WATCH_GUARD_REPORT_H

#include "base/watch/guard_pool.h"

/* The stable texts, each printed as "hakozuna: <text> 0x<address>". Misuses of free have those of check.h. */
#define HZ_TEXT_GUARD_BEHIND     "access behind a block:"
#define HZ_TEXT_GUARD_BEFORE     "access before a block:"
#define HZ_TEXT_GUARD_FREED      "access to a freed block:"
#define HZ_TEXT_GUARD_NONE       "access to a guard page, but no block is near:"
#define HZ_TEXT_GUARD_OVERWRITE  "free of a block that was written beyond its end:"
#define HZ_TEXT_GUARD_UNDERWRITE "free of a block that was written before its start:"

/* Takes over SIGSEGV. Call after the pool was made. False when the OS refuses. */
bool hz_guard_report_install(void);

/* Writes a report about a misuse of free and aborts. slot: may be NULL. No lock is held. */
HZ_NORETURN HZ_COLD void hz_guard_fail(const char *text, const void *address, const struct hz_guard_slot *slot);

/* In a fork's child: a report that another thread was writing is nobody's. */
void hz_guard_report_after_fork(void);

#endif
