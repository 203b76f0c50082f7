/* starting BEGUN: prints how many seconds after BEGUN, by the monotonic clock, the last rank has done MPI_Init. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int main(int count, char **words)
{
    int rank;
    double since, last;
    struct timespec time;
    MPI_Init(&count, &words);
    clock_gettime(CLOCK_MONOTONIC, &time);
    since = time.tv_sec + 1e-9 * time.tv_nsec - atof(words[1]);
    MPI_Reduce(&since, &last, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        printf("start %g\n", last);
    return MPI_Finalize();
}
