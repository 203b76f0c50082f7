/* stream SECONDS BYTES...: each rank of the first half has 64 messages under way at a time to its partner in the second half. Prints
 * for each size GB/s of all, and `rate-BYTES`: millions of messages per second of all. */
#include "measured.h"

enum { WINDOW = 64 };

static int rank, pairs, bytes;
static char *buffers[WINDOW];

static void window(void)
{
    MPI_Request requests[WINDOW];
    int sends = rank < pairs, partner = sends ? rank + pairs : rank - pairs;
    for (int number = 0; number < WINDOW; number++) {
        if (sends)
            MPI_Isend(buffers[number], bytes, MPI_BYTE, partner, 1, MPI_COMM_WORLD, &requests[number]);
        else
            MPI_Irecv(buffers[number], bytes, MPI_BYTE, partner, 1, MPI_COMM_WORLD, &requests[number]);
    }
    MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
    if (sends)
        MPI_Recv(NULL, 0, MPI_BYTE, partner, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else
        MPI_Send(NULL, 0, MPI_BYTE, partner, 2, MPI_COMM_WORLD);
}

int main(int count, char **words)
{
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &pairs);
    pairs /= 2;
    for (int word = 2; word < count; word++) {
        bytes = atoi(words[word]);
        for (int number = 0; number < WINDOW; number++)
            buffers[number] = memory(bytes);
        double time = measured(window, atof(words[1]));
        if (rank == 0)
            printf("%d %g\nrate-%d %g\n", bytes, 1e-3 * pairs * bytes * WINDOW / time, bytes, pairs * WINDOW / time);
        for (int number = 0; number < WINDOW; number++)
            free(buffers[number]);
    }
    return MPI_Finalize();
}
