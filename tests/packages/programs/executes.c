/* executes.c - has env(1) print the environment of a program that this one executes. */
#include <stdlib.h>
#include <unistd.h>

int main(void) {
    free(malloc(100));
    execl("/usr/bin/env", "env", (char *)NULL);
    return 1;
}
