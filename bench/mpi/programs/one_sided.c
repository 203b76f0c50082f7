/* one_sided SECONDS NAME...: µs of operations of rank 0 on the memory of rank 1, each of which is done at the target before the
 * next one begins (MPI_Win_flush), in a window of MPI_Win_allocate; and of a fence of both without operations. */
#include "measured.h"

enum { LONG = 1 << 17 }; /* numbers, which are 1 MB */

static MPI_Win window;
static double *own, result[LONG];
static int rank, length;

static void put(void)
{
    if (rank == 0) {
        MPI_Put(own, length, MPI_DOUBLE, 1, 0, length, MPI_DOUBLE, window);
        MPI_Win_flush(1, window);
    }
}

static void get(void)
{
    if (rank == 0) {
        MPI_Get(result, length, MPI_DOUBLE, 1, 0, length, MPI_DOUBLE, window);
        MPI_Win_flush(1, window);
    }
}

static void accumulate(void)
{
    if (rank == 0) {
        MPI_Accumulate(own, length, MPI_DOUBLE, 1, 0, length, MPI_DOUBLE, MPI_SUM, window);
        MPI_Win_flush(1, window);
    }
}

static void fetch_and_op(void)
{
    static const long one = 1;
    long before;
    if (rank == 0) {
        MPI_Fetch_and_op(&one, &before, MPI_LONG, 1, 0, MPI_SUM, window);
        MPI_Win_flush(1, window);
    }
}

static void compare_and_swap(void)
{
    static const long one = 1, two = 2;
    long before;
    if (rank == 0) {
        MPI_Compare_and_swap(&one, &two, &before, MPI_LONG, 1, 0, window);
        MPI_Win_flush(1, window);
    }
}

static void lock(void)
{
    if (rank == 0) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, window);
        MPI_Win_unlock(1, window);
    }
}

static void fence(void) { MPI_Win_fence(0, window); }

/* Operations with a length need the target to be locked. */
static const struct {
    const char *name;
    void (*operation)(void);
    int length;
} OPERATIONS[] = {
    {"put", put, 1},
    {"long_put", put, LONG},
    {"get", get, 1},
    {"long_get", get, LONG},
    {"accumulate", accumulate, 1},
    {"long_accumulate", accumulate, LONG},
    {"fetch_and_op", fetch_and_op, 1},
    {"compare_and_swap", compare_and_swap, 1},
    {"lock", lock, 0},
    {"fence", fence, 0},
};

int main(int count, char **words)
{
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int word = 2; word < count; word++)
        for (size_t which = 0; which < sizeof OPERATIONS / sizeof *OPERATIONS; which++)
            if (!strcmp(words[word], OPERATIONS[which].name)) {
                length = OPERATIONS[which].length;
                MPI_Win_allocate(sizeof result, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &own, &window);
                memset(own, 0, sizeof result);
                MPI_Barrier(MPI_COMM_WORLD);
                if (length > 0 && rank == 0)
                    MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, window);
                double time = measured(OPERATIONS[which].operation, atof(words[1]));
                if (length > 0 && rank == 0)
                    MPI_Win_unlock(1, window);
                MPI_Win_free(&window);
                if (rank == 0)
                    printf("%s %g\n", words[word], time);
            }
    return MPI_Finalize();
}
