/* Times an operation that all ranks do together. */
#include "median.h"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How often the operation has been done so far. */
static long operations;

static double batch(void (*operation)(void), long count)
{
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    for (long number = 0; number < count; number++)
        operation();
    MPI_Barrier(MPI_COMM_WORLD); /* a rank that only sends could be far ahead of the others */
    operations += count;
    return (MPI_Wtime() - begin) / count;
}

/* Microseconds: the median over batches, which take so many seconds together, of the mean in a batch. */
static double measured(void (*operation)(void), double seconds)
{
    enum { BATCHES = 15, WARM_UP = 20 };
    double means[BATCHES];
    batch(operation, WARM_UP);
    long count = seconds / BATCHES / batch(operation, WARM_UP);
    MPI_Bcast(&count, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    for (int number = 0; number < BATCHES; number++)
        means[number] = batch(operation, count > 0 ? count : 1);
    return median(means, BATCHES) * 1e6;
}

/* Memory whose pages are there. */
static inline char *memory(size_t bytes)
{
    char *start = malloc(bytes);
    if (!start)
        MPI_Abort(MPI_COMM_WORLD, 1);
    return memset(start, 1, bytes);
}
