/*
 * mpi.c - processes that exchange blocks of the heap: rings of messages from 8 bytes to 4 MiB, reductions, and
 * one-sided puts. Blocks are freed and allocated again between the exchanges, so an MPI that remembers what it has
 * registered must notice. The first process prints the sums that all agree on.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 12, SIZES = 20, WINDOW = 1 << 16 };

static uint64_t sum_of(const unsigned char *bytes, size_t size) {
    uint64_t sum = size;
    for (size_t i = 0; i < size; i++)
        sum = sum * 31 + bytes[i];
    return sum;
}

static uint64_t ring(int rank, int ranks, int round) {
    uint64_t sum = 0;
    for (int step = 0; step < SIZES; step++) {
        size_t size = (size_t)8 << step;
        unsigned char *out = malloc(size);
        unsigned char *in = malloc(size);
        if (out == NULL || in == NULL)
            MPI_Abort(MPI_COMM_WORLD, 3);
        memset(out, rank + step + round, size);
        MPI_Sendrecv(out, (int)size, MPI_BYTE, (rank + 1) % ranks, step, in, (int)size, MPI_BYTE,
                     (rank + ranks - 1) % ranks, step, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        sum += sum_of(in, size);
        free(out);
        in = realloc(in, size * 2);
        free(in);
    }
    return sum;
}

static uint64_t put(int rank, int ranks) {
    uint64_t *memory = NULL;
    MPI_Win window;
    MPI_Win_allocate(WINDOW * sizeof *memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    uint64_t *mine = malloc(WINDOW * sizeof *mine);
    for (size_t i = 0; i < WINDOW; i++)
        mine[i] = i * (uint64_t)(rank + 1);
    MPI_Win_fence(0, window);
    MPI_Put(mine, WINDOW, MPI_UINT64_T, (rank + 1) % ranks, 0, WINDOW, MPI_UINT64_T, window);
    MPI_Win_fence(0, window);
    uint64_t sum = sum_of((unsigned char *)memory, WINDOW * sizeof *memory);
    MPI_Win_free(&window);
    free(mine);
    return sum;
}

int main(int argc, char **argv) {
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    uint64_t sum = 0, total = 0;
    for (int round = 0; round < ROUNDS; round++)
        sum += ring(rank, ranks, round);
    sum += put(rank, ranks);
    MPI_Allreduce(&sum, &total, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d processes, sum %llu\n", ranks, (unsigned long long)total);
    MPI_Finalize();
    return 0;
}
