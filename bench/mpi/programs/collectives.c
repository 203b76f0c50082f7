/* collectives SECONDS NAME...: µs of collective operations on all ranks. */
#include "measured.h"

enum { LONG = 1 << 17 }; /* numbers, which are 1 MB */

static double own[LONG], result[LONG];

static void barrier(void) { MPI_Barrier(MPI_COMM_WORLD); }

static void bcast(void) { MPI_Bcast(own, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD); }

static void allreduce(void) { MPI_Allreduce(own, result, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); }

static void long_allreduce(void) { MPI_Allreduce(own, result, LONG, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); }

static const struct {
    const char *name;
    void (*operation)(void);
} OPERATIONS[] = {{"barrier", barrier}, {"bcast", bcast}, {"allreduce", allreduce}, {"long_allreduce", long_allreduce}};

int main(int count, char **words)
{
    int rank;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int number = 0; number < LONG; number++)
        own[number] = rank;
    for (int word = 2; word < count; word++)
        for (size_t which = 0; which < sizeof OPERATIONS / sizeof *OPERATIONS; which++)
            if (!strcmp(words[word], OPERATIONS[which].name)) {
                double time = measured(OPERATIONS[which].operation, atof(words[1]));
                if (rank == 0)
                    printf("%s %g\n", words[word], time);
            }
    return MPI_Finalize();
}
