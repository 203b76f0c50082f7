/* Messages in partitions with equal tags match in the order in which they were prepared, whatever is started first. */

#include "check.h"

enum { MESSAGES = 3, PARTITIONS = 4, COUNT = 5, LENGTH = PARTITIONS * COUNT };

static int data[MESSAGES][LENGTH], rank, size;

static void fill(int message, int number) {
    for (int i = 0; i < LENGTH; i++)
        data[message][i] = number < 0 ? -1 : 1000 * number + i;
}

static void check(int message, int number) {
    for (int i = 0; i < LENGTH; i++)
        if (data[message][i] != 1000 * number + i) {
            failed++;
            printf("message %d has %d at %d, not %d\n", message, data[message][i], i, 1000 * number + i);
            return;
        }
}

static void send(const int *order, const int *tags, MPI_Comm comm, int to, int rounds, int first) {
    MPI_Request requests[MESSAGES];
    for (int i = 0; i < MESSAGES; i++)
        CHECK(MPI_Psend_init(data[i], PARTITIONS, COUNT, MPI_INT, to, tags[i], comm, MPI_INFO_NULL, &requests[i]) ==
              MPI_SUCCESS);
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < MESSAGES; i++) {
            fill(order[i], first + 10 * round + order[i]);
            CHECK(MPI_Start(&requests[order[i]]) == MPI_SUCCESS);
            CHECK(MPI_Pready_range(0, PARTITIONS - 1, requests[order[i]]) == MPI_SUCCESS);
        }
        CHECK(MPI_Waitall(MESSAGES, requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
    }
    for (int i = 0; i < MESSAGES; i++)
        CHECK(MPI_Request_free(&requests[i]) == MPI_SUCCESS);
}

/* Half as many partitions, which the standard allows. */
static void receive(const int *order, const int *tags, MPI_Comm comm, int from, int rounds, int first) {
    MPI_Request requests[MESSAGES];
    MPI_Status statuses[MESSAGES];
    int arrived, count;
    for (int i = 0; i < MESSAGES; i++)
        CHECK(MPI_Precv_init(data[i], PARTITIONS / 2, 2 * COUNT, MPI_INT, from, tags[i], comm, MPI_INFO_NULL,
                             &requests[i]) == MPI_SUCCESS);
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < MESSAGES; i++) {
            fill(order[i], -1);
            CHECK(MPI_Start(&requests[order[i]]) == MPI_SUCCESS);
        }
        do
            CHECK(MPI_Parrived(requests[1], 1, &arrived) == MPI_SUCCESS);
        while (!arrived);
        CHECK(MPI_Waitall(MESSAGES, requests, statuses) == MPI_SUCCESS);
        for (int i = 0; i < MESSAGES; i++) {
            check(i, first + 10 * round + i);
            CHECK(statuses[i].MPI_SOURCE == from && statuses[i].MPI_TAG == tags[i]);
            CHECK(MPI_Get_count(&statuses[i], MPI_INT, &count) == MPI_SUCCESS && count == LENGTH);
        }
    }
    for (int i = 0; i < MESSAGES; i++)
        CHECK(MPI_Request_free(&requests[i]) == MPI_SUCCESS);
}

static void exchange(const int *first, const int *then, const int *tags, MPI_Comm comm, int number) {
    if (rank == 0)
        send(first, tags, comm, size - 1, 3, number);
    if (rank == size - 1 && size > 1)
        receive(then, tags, comm, 0, 3, number);
}

/* To itself, and what is prepared and freed without a start still has its place in the order. */
static void alone(MPI_Comm comm) {
    MPI_Request sends[2], receives[2];
    int out[2] = {1, 2}, in[2] = {0, 0}, here, value;
    MPI_Comm_rank(comm, &here);
    for (int i = 0; i < 2; i++)
        CHECK(MPI_Precv_init(&in[i], 1, 1, MPI_INT, here, 7, comm, MPI_INFO_NULL, &receives[i]) == MPI_SUCCESS);
    for (int i = 0; i < 2; i++)
        CHECK(MPI_Psend_init(&out[i], 1, 1, MPI_INT, here, 7, comm, MPI_INFO_NULL, &sends[i]) == MPI_SUCCESS);
    CHECK(MPI_Request_free(&sends[0]) == MPI_SUCCESS && MPI_Request_free(&receives[0]) == MPI_SUCCESS);
    CHECK(MPI_Start(&receives[1]) == MPI_SUCCESS && MPI_Start(&sends[1]) == MPI_SUCCESS);
    CHECK(MPI_Pready(0, sends[1]) == MPI_SUCCESS);
    CHECK(MPI_Wait(&sends[1], MPI_STATUS_IGNORE) == MPI_SUCCESS);
    CHECK(MPI_Wait(&receives[1], MPI_STATUS_IGNORE) == MPI_SUCCESS && in[0] == 0 && in[1] == 2);
    CHECK(MPI_Request_free(&sends[1]) == MPI_SUCCESS && MPI_Request_free(&receives[1]) == MPI_SUCCESS);
    /* They match nothing else. */
    CHECK(MPI_Sendrecv(&out[0], 1, MPI_INT, here, 7, &value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm,
                       MPI_STATUS_IGNORE) == MPI_SUCCESS && value == 1);
    CHECK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN) == MPI_SUCCESS);
    CHECK(class_of(MPI_Psend_init(out, 1, 1, MPI_INT, here, -5, comm, MPI_INFO_NULL, sends)) == MPI_ERR_TAG);
    CHECK(class_of(MPI_Precv_init(in, 1, 1, MPI_INT, here, -5, comm, MPI_INFO_NULL, receives)) == MPI_ERR_TAG);
}

int main(void) {
    static const int forward[] = {0, 1, 2}, backward[] = {2, 1, 0}, mixed[] = {2, 0, 1};
    static const int equal[] = {4, 4, 4}, distinct[] = {6, 5, 4}, some[] = {4, 5, 4};
    MPI_Comm comm;
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    if (size > 1) {
        exchange(forward, forward, equal, MPI_COMM_WORLD, 100);
        exchange(mixed, forward, equal, MPI_COMM_WORLD, 200);
        exchange(forward, backward, equal, comm, 300);
        exchange(mixed, backward, some, comm, 400);
        exchange(backward, mixed, distinct, MPI_COMM_WORLD, 500);
    }
    alone(comm);
    CHECK(MPI_Comm_free(&comm) == MPI_SUCCESS);
    MPI_Finalize();
    return failed;
}
