/* stream SECONDS BYTES...: rank 0 has 64 messages under way at a time to rank 1. Prints for each size GB/s. */
#include "measured.h"

enum { WINDOW = 64 };

static int rank, bytes;
static char *buffers[WINDOW];

static void window(void)
{
    MPI_Request requests[WINDOW];
    for (int number = 0; number < WINDOW; number++) {
        if (rank == 0)
            MPI_Isend(buffers[number], bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &requests[number]);
        else
            MPI_Irecv(buffers[number], bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &requests[number]);
    }
    MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
    if (rank == 0)
        MPI_Recv(NULL, 0, MPI_BYTE, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else
        MPI_Send(NULL, 0, MPI_BYTE, 0, 2, MPI_COMM_WORLD);
}

int main(int count, char **words)
{
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int word = 2; word < count; word++) {
        bytes = atoi(words[word]);
        for (int number = 0; number < WINDOW; number++)
            buffers[number] = memory(bytes);
        double time = measured(window, atof(words[1]));
        if (rank == 0)
            printf("%d %g\n", bytes, 1e-3 * bytes * WINDOW / time);
        for (int number = 0; number < WINDOW; number++)
            free(buffers[number]);
    }
    return MPI_Finalize();
}
