/*
 * override_archive.c - what only the archives have. They read the surroundings when the program starts; the shared
 * library does so in the program's first pthread_create, which most programs never call. And their prctl makes
 * the system call itself, since a static program has no other prctl that it could call.
 */
#include "base/os/syscall.h"
#include "front/announce.h"
#include "heap/back/keeper.h"
#include "heap/back/surroundings.h"

typedef int prctl_function(int, unsigned long, unsigned long, unsigned long, unsigned long);

/* Not with an ellipsis, as in override_syscall.c; under another name here, since headers declare it with one. */
HZ_EXPORT prctl_function archive_prctl __asm__("prctl");

int archive_prctl(int option, unsigned long first, unsigned long second, unsigned long third, unsigned long fourth) {
    hz_announce_if_filter(SYS_prctl, option, (long)first, (long)second);
    bool is_of_thread = hz_announce_is_of_thread(SYS_prctl, option, (long)first);
    struct hz_announced ended = is_of_thread ? hz_announce_begin() : (struct hz_announced){.reporter = false};
    long result = hz_announce_answer(HZ_SYSCALL6(SYS_prctl, option, first, second, third, fourth, 0));
    hz_announce_end(ended);
    return (int)result;
}

__attribute__((constructor)) static void surroundings_load(void) {
    if (hz_keeper_is_possible())
        hz_surroundings_read();
}
