/* collectives SECONDS NAME…: µs of collective operations on all ranks. A name has the bytes that each rank has for each (of an
 * alltoall), or of its own: barrier, allreduce-8, … */
#include "measured.h"

static int rank, ranks, bytes;
static char *own, *result;

static void barrier(void) { MPI_Barrier(MPI_COMM_WORLD); }

static void bcast(void) { MPI_Bcast(own, bytes, MPI_BYTE, 0, MPI_COMM_WORLD); }

static void reduce(void) { MPI_Reduce(own, result, bytes / 8, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD); }

static void allreduce(void) { MPI_Allreduce(own, result, bytes / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); }

static void allgather(void) { MPI_Allgather(own, bytes, MPI_BYTE, result, bytes, MPI_BYTE, MPI_COMM_WORLD); }

static void alltoall(void) { MPI_Alltoall(own, bytes, MPI_BYTE, result, bytes, MPI_BYTE, MPI_COMM_WORLD); }

static const struct {
    const char *name;
    void (*operation)(void);
} OPERATIONS[] = {{"barrier", barrier},     {"bcast", bcast},         {"reduce", reduce},
                  {"allreduce", allreduce}, {"allgather", allgather}, {"alltoall", alltoall}};

static void measure(const char *word, const char *seconds)
{
    size_t length = strcspn(word, "-");
    bytes = word[length] ? atoi(word + length + 1) : 0;
    own = memset(memory((size_t)ranks * bytes + 1), 0, (size_t)ranks * bytes);
    result = memory((size_t)ranks * bytes + 1);
    for (size_t which = 0; which < sizeof OPERATIONS / sizeof *OPERATIONS; which++)
        if (strlen(OPERATIONS[which].name) == length && !strncmp(word, OPERATIONS[which].name, length)) {
            double time = measured(OPERATIONS[which].operation, atof(seconds));
            if (rank == 0)
                printf("%s %g\n", word, time);
        }
    free(own);
    free(result);
}

int main(int count, char **words)
{
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int word = 2; word < count; word++)
        measure(words[word], words[1]);
    return MPI_Finalize();
}
