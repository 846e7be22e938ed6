/* c11_threads.c - starts threads by thrd_create, and prints what one returned, and whether the keeper runs. */
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

static int body(void *argument) {
    free(malloc(100));
    return *(int *)argument;
}

static bool is_keeper(const char *task) {
    char path[300];
    char name[32] = "";
    snprintf(path, sizeof path, "/proc/self/task/%s/comm", task);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return false;
    bool is = fgets(name, sizeof name, file) != NULL && strcmp(name, "hakozuna\n") == 0;
    fclose(file);
    return is;
}

/* The number of threads beside this one, or -1 if one of them is the keeper. */
static int others(void) {
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; count >= 0 && (task = readdir(tasks)) != NULL;)
        if (task->d_name[0] != '.' && atoi(task->d_name) != getpid())
            count = is_keeper(task->d_name) ? -1 : count + 1;
    closedir(tasks);
    return count;
}

int main(void) {
    int answer = 42;
    int result = 0;
    thrd_t thread;
    for (int i = 0; i < 3; i++)
        if (thrd_create(&thread, body, &answer) != thrd_success || thrd_join(thread, &result) != thrd_success)
            return 1;
    printf("%d\n", result);
    /* the keeper names itself, and the kernel shows a joined thread a little longer */
    int seen = others();
    for (int tries = 0; seen > 0 && tries < 1000; tries++) {
        thrd_sleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        seen = others();
    }
    puts(seen < 0 ? "keeper" : "alone");
    return 0;
}
