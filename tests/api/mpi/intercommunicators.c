/* Communicators are made of an intercommunicator while collective operations on it are under way. */

#include "check.h"

enum { TIMES = 5 };

static int rank, size, left;
static MPI_Comm half, across;

/* Both sides have what the others of the new communicator have. */
static void use(MPI_Comm made) {
    int number = left ? 3 : 5, sum = 0, others, remote;
    CHECK(MPI_Comm_test_inter(made, &remote) == MPI_SUCCESS && remote);
    CHECK(MPI_Comm_remote_size(made, &others) == MPI_SUCCESS);
    CHECK(MPI_Allreduce(&number, &sum, 1, MPI_INT, MPI_SUM, made) == MPI_SUCCESS && sum == others * (left ? 5 : 3));
}

static void finish(MPI_Request *requests, MPI_Comm *made) {
    CHECK(MPI_Waitall(2 * TIMES, requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
    for (int i = 0; i < TIMES; i++) {
        use(made[i]);
        CHECK(MPI_Comm_free(&made[i]) == MPI_SUCCESS);
    }
}

static void beside_barriers(void) {
    MPI_Request requests[2 * TIMES];
    MPI_Comm made[TIMES];
    for (int i = 0; i < TIMES; i++) {
        CHECK(MPI_Ibarrier(across, &requests[i]) == MPI_SUCCESS);
        CHECK(MPI_Comm_idup(across, &made[i], &requests[TIMES + i]) == MPI_SUCCESS);
    }
    finish(requests, made);
}

static void beside_reductions(void) {
    MPI_Request requests[2 * TIMES];
    MPI_Comm made[TIMES];
    int in[TIMES], out[TIMES], others;
    CHECK(MPI_Comm_remote_size(across, &others) == MPI_SUCCESS);
    for (int i = 0; i < TIMES; i++) {
        in[i] = left ? 7 + i : 11 + i;
        CHECK(MPI_Iallreduce(&in[i], &out[i], 1, MPI_INT, MPI_SUM, across, &requests[i]) == MPI_SUCCESS);
        CHECK(MPI_Comm_idup(across, &made[i], &requests[TIMES + i]) == MPI_SUCCESS);
    }
    finish(requests, made);
    for (int i = 0; i < TIMES; i++)
        CHECK(out[i] == others * (left ? 11 + i : 7 + i));
}

/* The blocking ones wait for what the other side does meanwhile. */
static void blocking_ones(void) {
    MPI_Request requests[TIMES];
    MPI_Comm made[3];
    int in[TIMES], out[TIMES], others;
    CHECK(MPI_Comm_remote_size(across, &others) == MPI_SUCCESS);
    for (int i = 0; i < TIMES; i++) {
        in[i] = i + left;
        CHECK(MPI_Iallreduce(&in[i], &out[i], 1, MPI_INT, MPI_SUM, across, &requests[i]) == MPI_SUCCESS);
        if (i == 1)
            CHECK(MPI_Comm_dup(across, &made[0]) == MPI_SUCCESS);
        if (i == 2)
            CHECK(MPI_Comm_split(across, 0, -rank, &made[1]) == MPI_SUCCESS);
        if (i == 3)
            CHECK(MPI_Intercomm_merge(across, left, &made[2]) == MPI_SUCCESS);
    }
    CHECK(MPI_Waitall(TIMES, requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
    for (int i = 0; i < TIMES; i++)
        CHECK(out[i] == others * (i + !left));
    use(made[0]);
    use(made[1]);
    CHECK(MPI_Allreduce(&rank, &in[0], 1, MPI_INT, MPI_SUM, made[2]) == MPI_SUCCESS && in[0] == size * (size - 1) / 2);
    for (int i = 0; i < 3; i++)
        CHECK(MPI_Comm_free(&made[i]) == MPI_SUCCESS);
}

int main(void) {
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    /* The sides are of different sizes, and each has collective operations of its own before. */
    left = rank < (size + 1) / 3 || rank == 0;
    MPI_Comm_split(MPI_COMM_WORLD, left, rank, &half);
    CHECK(MPI_Barrier(half) == MPI_SUCCESS);
    int leader = left ? ((size + 1) / 3 > 0 ? (size + 1) / 3 : 1) : 0;
    CHECK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, leader, 1, &across) == MPI_SUCCESS);
    for (int i = 0; i < TIMES; i++) {
        beside_barriers();
        beside_reductions();
        blocking_ones();
    }
    CHECK(MPI_Comm_free(&across) == MPI_SUCCESS && MPI_Comm_free(&half) == MPI_SUCCESS);
    MPI_Finalize();
    return failed;
}
