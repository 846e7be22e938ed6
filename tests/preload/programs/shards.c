/*
 * shards.c - threads that start when a test says so, and the shards that they are given. Reads lines from stdin:
 *
 *   start N     starts N threads, which allocate and wait; answers "start" and the shard of each of them
 *   stop        ends them
 *   hold N      one thread allocates N MB in blocks of 1000 bytes, frees 7 of 8 and ends; answers "hold"
 *   take N      the same, but the thread frees nothing before it ends
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { THREADS_MAX = 64, BLOCK_BYTES = 1000 };

static pthread_t threads[THREADS_MAX];
static int ids[THREADS_MAX];
static int count;
static pthread_barrier_t begun, over;

static void *wait_for_the_end(void *argument) {
    int index = (int)(size_t)argument;
    free(malloc(100));
    ids[index] = (int)syscall(SYS_gettid);
    pthread_barrier_wait(&begun);
    pthread_barrier_wait(&over);
    return NULL;
}

/* The statistics, as text that is not freed. */
static char *statistics(void) {
    int (*print)(int, int) = (int (*)(int, int))dlsym(RTLD_DEFAULT, "hz_stats_print");
    FILE *file = tmpfile();
    enum { JSON = 1, ROOM = 1 << 20 };
    static char text[ROOM];
    if (print == NULL || file == NULL || print(fileno(file), JSON) != 0)
        abort();
    rewind(file);
    text[fread(text, 1, ROOM - 1, file)] = '\0';
    fclose(file);
    return text;
}

static int shard_of(const char *text, int id) {
    char label[64];
    snprintf(label, sizeof label, "\"thread_id\":%d,", id);
    const char *row = strstr(text, label);
    const char *shard = row != NULL ? strstr(row, "\"shard\":") : NULL;
    if (shard == NULL)
        abort();
    return atoi(shard + strlen("\"shard\":"));
}

static void start(int wanted) {
    count = wanted;
    pthread_barrier_init(&begun, NULL, (unsigned)count + 1);
    pthread_barrier_init(&over, NULL, (unsigned)count + 1);
    for (int i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, wait_for_the_end, (void *)(size_t)i) != 0)
            abort();
    pthread_barrier_wait(&begun);
    const char *text = statistics();
    printf("start");
    for (int i = 0; i < count; i++)
        printf(" %d", shard_of(text, ids[i]));
    printf("\n");
}

static void stop(void) {
    pthread_barrier_wait(&over);
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    printf("stop\n");
}

struct load {
    size_t bytes;
    bool keeps_all;
};

static void *allocate(void *argument) {
    const struct load *load = argument;
    static void *kept[256 << 10];
    size_t held = 0;
    for (size_t i = 0; i < load->bytes / BLOCK_BYTES; i++) {
        void *block = malloc(BLOCK_BYTES);
        if (block == NULL)
            abort();
        memset(block, 1, BLOCK_BYTES);
        kept[held++] = block;
    }
    for (size_t i = 0; i < held && !load->keeps_all; i++)
        if (i % 8 != 0)
            free(kept[i]);
    return NULL;
}

int main(void) {
    char line[100];
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("ready\n");
    while (fgets(line, sizeof line, stdin) != NULL) {
        int number = strchr(line, ' ') != NULL ? atoi(strchr(line, ' ')) : 0;
        if (strncmp(line, "start", 5) == 0 && number > 0 && number <= THREADS_MAX)
            start(number);
        else if (strncmp(line, "stop", 4) == 0)
            stop();
        else if (strncmp(line, "hold", 4) == 0 || strncmp(line, "take", 4) == 0) {
            struct load load = {(size_t)number << 20, line[0] == 't'};
            pthread_t thread;
            if (pthread_create(&thread, NULL, allocate, &load) != 0)
                abort();
            pthread_join(thread, NULL);
            printf("%.4s\n", line);
        } else {
            abort();
        }
    }
    return 0;
}
