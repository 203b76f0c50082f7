/* Several processes work on one another's windows at once, in shared memory and by message: nothing is lost. */

#include "check.h"
#include <stdlib.h>

enum { TIMES = 2000, LONG = 3000 };

static int rank, size;

/* All add to the numbers of rank 0, one at a time and many: each sees another sum, and none is lost. */
static void add(MPI_Win window, long *own)
{
    long one = 1, before, last = -1, many[LONG];
    for (int number = 0; number < LONG; number++)
        many[number] = 1;
    MPI_Win_lock_all(0, window);
    for (int time = 0; time < TIMES; time++) {
        MPI_Fetch_and_op(&one, &before, MPI_LONG, 0, 0, MPI_SUM, window);
        MPI_Win_flush(0, window);
        CHECK(before > last);
        last = before;
        MPI_Accumulate(&one, 1, MPI_LONG, 0, 1, 1, MPI_LONG, MPI_SUM, window);
        if (time % 100 == 0)
            MPI_Accumulate(many, LONG, MPI_LONG, 0, 0, LONG, MPI_LONG, MPI_SUM, window);
    }
    MPI_Win_flush(0, window);
    /* Who sees a number that it expects adds one. */
    for (int done = 0; done < 100;) {
        long expected, after;
        MPI_Fetch_and_op(NULL, &expected, MPI_LONG, 0, LONG, MPI_NO_OP, window);
        MPI_Win_flush(0, window);
        after = expected + 1;
        MPI_Compare_and_swap(&after, &expected, &before, MPI_LONG, 0, LONG, window);
        MPI_Win_flush(0, window);
        done += before == expected;
    }
    MPI_Win_unlock_all(window);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
        CHECK(own[0] == size * (TIMES + TIMES / 100) && own[1] == own[0] && own[2] == size * (TIMES / 100));
        CHECK(own[LONG] == 100L * size);
        MPI_Win_unlock(0, window);
    }
}

/* Who has the lock alone finds what the one before has left. */
static void lock(MPI_Win window)
{
    long pair[2];
    for (int time = 0; time < TIMES / 10; time++) {
        int target = time % size;
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, window);
        MPI_Get(pair, 2, MPI_LONG, target, LONG + 1, 2, MPI_LONG, window);
        MPI_Win_flush(target, window);
        CHECK(pair[0] == -pair[1]);
        pair[0]++, pair[1]--;
        MPI_Put(&pair[1], 1, MPI_LONG, target, LONG + 2, 1, MPI_LONG, window);
        MPI_Win_flush(target, window);
        MPI_Put(&pair[0], 1, MPI_LONG, target, LONG + 1, 1, MPI_LONG, window);
        MPI_Win_unlock(target, window);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
    MPI_Get(pair, 2, MPI_LONG, 0, LONG + 1, 2, MPI_LONG, window);
    MPI_Win_unlock(0, window);
    CHECK(pair[0] == (long)size * ((TIMES / 10 + size - 1) / size) && pair[1] == -pair[0]);
}

/* Between two fences each puts a number to its right, and finds that of its left. */
static void turn(MPI_Win window, long *own)
{
    MPI_Win_fence(MPI_MODE_NOPRECEDE, window);
    for (long time = 0; time < TIMES / 10; time++) {
        long number = time * size + rank;
        MPI_Put(&number, 1, MPI_LONG, (rank + 1) % size, LONG + 3, 1, MPI_LONG, window);
        MPI_Win_fence(0, window);
        CHECK(own[LONG + 3] == time * size + (rank + size - 1) % size);
        MPI_Win_fence(0, window);
    }
    MPI_Win_fence(MPI_MODE_NOSUCCEED, window);
    CHECK(class_of(MPI_Put(own, 1, MPI_LONG, 0, 0, 1, MPI_LONG, window)) == MPI_ERR_RMA_SYNC);
}

static void use(MPI_Win window, long *own)
{
    MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN);
    memset(own, 0, (LONG + 4) * sizeof *own);
    MPI_Barrier(MPI_COMM_WORLD);
    add(window, own);
    lock(window);
    turn(window, own);
    MPI_Win_free(&window);
    CHECK(window == MPI_WIN_NULL);
}

int main(int argc, char **argv)
{
    MPI_Aint bytes = (LONG + 4) * sizeof(long), its;
    MPI_Win window;
    long *own, *there;
    int unit;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Win_allocate(bytes, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &own, &window);
    MPI_Win_shared_query(window, rank, &its, &unit, &there);
    CHECK(its == bytes && unit == sizeof(long) && there == own);
    use(window, own);
    own = malloc(bytes);
    MPI_Win_create(own, bytes, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    use(window, own);
    free(own);
    MPI_Finalize();
    return failed > 0;
}
