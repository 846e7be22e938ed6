/* replaced.c - calls each function that replacer.c replaces, once. */
#include <dlfcn.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <threads.h>

static void *body(void *argument) {
    return argument;
}

static int body_c11(void *argument) {
    return argument != NULL;
}

int main(void) {
    pthread_t thread;
    thrd_t c11;
    if (pthread_create(&thread, NULL, body, NULL) != 0 || pthread_join(thread, NULL) != 0)
        return 1;
    if (thrd_create(&c11, body_c11, NULL) != thrd_success || thrd_join(c11, NULL) != thrd_success)
        return 2;
    if (dlopen("libm.so.6", RTLD_NOW) == NULL)
        return 3;
    return prctl(PR_SET_NAME, "replaced") != 0;
}
