/* ping_pong SECONDS BYTES...: a message to and fro between two ranks. Prints for each size half of a round trip in µs, and
 * at the end the bytes that were sent. */
#include "measured.h"

static int rank, bytes;
static char *out, *in;

static void send(void) { MPI_Send(out, bytes, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD); }

static void receive(void) { MPI_Recv(in, bytes, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE); }

static void round_trip(void)
{
    if (rank == 0)
        send();
    receive();
    if (rank == 1)
        send();
}

int main(int count, char **words)
{
    double total = 0;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int word = 2; word < count; word++) {
        bytes = atoi(words[word]);
        out = memory(bytes);
        in = memory(bytes);
        operations = 0;
        double time = measured(round_trip, atof(words[1])) / 2;
        total += 2.0 * bytes * operations;
        if (rank == 0)
            printf("%d %g\n", bytes, time);
        free(out);
        free(in);
    }
    if (rank == 0)
        printf("bytes %.0f\n", total);
    return MPI_Finalize();
}
