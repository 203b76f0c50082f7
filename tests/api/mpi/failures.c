/* A rank is lost, and the others find out, agree, revoke, shrink and go on. Checks everything; prints nothing. */

#include "check.h"
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

enum { LARGE = 1 << 20, VICTIM = 1 };

static int rank, size;
static MPI_Comm others; /* Without the victim. */

static int size_of(MPI_Group group) {
    int count;
    MPI_Group_size(group, &count);
    MPI_Group_free(&group);
    return count;
}

static int count_failed(MPI_Comm comm) {
    MPI_Group group;
    CHECK(MPIX_Comm_get_failed(comm, &group) == MPI_SUCCESS);
    return size_of(group);
}

static int count_acked(MPI_Comm comm) {
    MPI_Group group;
    CHECK(MPIX_Comm_failure_get_acked(comm, &group) == MPI_SUCCESS);
    return size_of(group);
}

/* What is asked of a lost rank, or of anybody while it is not acknowledged, fails. */
static void find_out(MPI_Comm comm) {
    int token = 7, acked = -1, next = (rank + 1) % size, before = (rank + size - 1) % size;
    next = next == VICTIM ? (next + 1) % size : next;
    before = before == VICTIM ? (before + size - 1) % size : before;
    CHECK(class_of(MPI_Recv(&token, 1, MPI_INT, VICTIM, 3, comm, MPI_STATUS_IGNORE)) == MPIX_ERR_PROC_FAILED);
    CHECK(class_of(MPI_Ssend(&token, 1, MPI_INT, VICTIM, 3, comm)) == MPIX_ERR_PROC_FAILED);
    CHECK(class_of(MPI_Recv(&token, 1, MPI_INT, MPI_ANY_SOURCE, 3, comm, MPI_STATUS_IGNORE)) == MPIX_ERR_PROC_FAILED);
    CHECK(class_of(MPI_Probe(MPI_ANY_SOURCE, 3, comm, MPI_STATUS_IGNORE)) == MPIX_ERR_PROC_FAILED);

    MPI_Request request;
    MPI_Status status;
    CHECK(MPI_Irecv(&token, 1, MPI_INT, MPI_ANY_SOURCE, 4, comm, &request) == MPI_SUCCESS);
    CHECK(class_of(MPI_Wait(&request, &status)) == MPIX_ERR_PROC_FAILED_PENDING);
    CHECK(request != MPI_REQUEST_NULL);
    CHECK(class_of(MPI_Waitall(1, &request, &status)) == MPI_ERR_IN_STATUS);
    CHECK(class_of(status.MPI_ERROR) == MPIX_ERR_PROC_FAILED_PENDING && request != MPI_REQUEST_NULL);
    int count, index;
    CHECK(class_of(MPI_Waitsome(1, &request, &count, &index, &status)) == MPI_ERR_IN_STATUS && count == 1);

    CHECK(count_failed(comm) == 1 && count_acked(comm) == 0);
    CHECK(MPIX_Comm_ack_failed(comm, 0, &acked) == MPI_SUCCESS && acked == 0);
    CHECK(MPIX_Comm_failure_ack(comm) == MPI_SUCCESS && count_acked(comm) == 1);
    CHECK(MPIX_Comm_ack_failed(comm, size, &acked) == MPI_SUCCESS && acked == 1);
    CHECK(class_of(MPIX_Comm_ack_failed(comm, -1, &acked)) == MPI_ERR_ARG);
    CHECK(MPI_Barrier(others) == MPI_SUCCESS); /* All have seen that their receive waits. */
    CHECK(MPI_Send(&rank, 1, MPI_INT, next, 4, comm) == MPI_SUCCESS);
    CHECK(MPI_Wait(&request, &status) == MPI_SUCCESS);
    CHECK(request == MPI_REQUEST_NULL && token == before && status.MPI_SOURCE == before);
}

/* All get the same, and an error while one of them has not acknowledged the loss. */
static void agree(MPI_Comm known, MPI_Comm unknown) {
    int flag = 0x70 | 1 << rank;
    CHECK(MPIX_Comm_agree(known, &flag) == MPI_SUCCESS && flag == 0x70);
    flag = ~(1 << rank) & 0xff;
    if (rank == 0)
        CHECK(MPIX_Comm_failure_ack(unknown) == MPI_SUCCESS);
    CHECK(class_of(MPIX_Comm_agree(unknown, &flag)) == MPIX_ERR_PROC_FAILED);
    CHECK(flag == (~((1 << size) - 1) & 0xff) + (1 << VICTIM));
    MPI_Request request;
    flag = -1;
    CHECK(MPIX_Comm_iagree(known, &flag, &request) == MPI_SUCCESS);
    CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS && flag == -1);
}

/* One revokes; what the others have begun, of whatever kind, ends. */
static void revoke_one(MPI_Comm comm, MPI_Comm gate) {
    static char large[LARGE], into[LARGE];
    int flag, token, first = rank == 0 ? 2 : 0;
    MPI_Request requests[4];
    MPI_Status statuses[4];
    CHECK(MPIX_Comm_is_revoked(comm, &flag) == MPI_SUCCESS && !flag);
    MPI_Irecv(into, LARGE, MPI_CHAR, first, 1, comm, &requests[0]);
    MPI_Isend(large, LARGE, MPI_CHAR, first, 2, comm, &requests[1]);
    MPI_Issend(&rank, 1, MPI_INT, first, 2, comm, &requests[2]);
    MPI_Irecv(&token, 1, MPI_INT, MPI_ANY_SOURCE, 5, comm, &requests[3]);
    CHECK(MPI_Barrier(gate) == MPI_SUCCESS);
    if (rank == 0)
        CHECK(MPIX_Comm_revoke(comm) == MPI_SUCCESS);
    CHECK(class_of(MPI_Waitall(4, requests, statuses)) == MPI_ERR_IN_STATUS);
    for (int i = 0; i < 4; i++)
        CHECK(requests[i] == MPI_REQUEST_NULL && class_of(statuses[i].MPI_ERROR) == MPIX_ERR_REVOKED);
    CHECK(MPIX_Comm_is_revoked(comm, &flag) == MPI_SUCCESS && flag);
    CHECK(class_of(MPI_Barrier(comm)) == MPIX_ERR_REVOKED);
    CHECK(class_of(MPI_Send(&token, 0, MPI_INT, MPI_PROC_NULL, 0, comm)) == MPIX_ERR_REVOKED);
    CHECK(class_of(MPI_Recv(&token, 0, MPI_INT, MPI_PROC_NULL, 0, comm, MPI_STATUS_IGNORE)) == MPIX_ERR_REVOKED);
    CHECK(class_of(MPI_Comm_dup(comm, &gate)) == MPIX_ERR_REVOKED);
    CHECK(MPIX_Comm_revoke(comm) == MPI_SUCCESS);
    flag = 3;
    CHECK(class_of(MPIX_Comm_agree(comm, &flag)) == MPIX_ERR_PROC_FAILED && flag == 3);
}

/* A window and a file end with the communicator that they were made of, also for who waits in them. */
static void revoke_what_is_made_of(MPI_Comm of, const char *program) {
    MPI_Comm comm;
    MPI_Win win;
    MPI_File file;
    int *base, own, amode = MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE;
    char name[4096];
    MPI_Comm_rank(of, &own);
    snprintf(name, sizeof name, "%s.data", program);
    CHECK(MPI_Comm_dup(of, &comm) == MPI_SUCCESS);
    CHECK(MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, comm, &base, &win) == MPI_SUCCESS);
    CHECK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN) == MPI_SUCCESS);
    CHECK(MPI_File_open(comm, name, amode, MPI_INFO_NULL, &file) == MPI_SUCCESS);
    CHECK(MPI_File_write_shared(file, &own, 1, MPI_INT, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    CHECK(MPI_Barrier(of) == MPI_SUCCESS);
    if (own == 0)
        CHECK(MPIX_Comm_revoke(comm) == MPI_SUCCESS);
    CHECK(class_of(MPI_Win_fence(0, win)) == MPIX_ERR_REVOKED);
    CHECK(class_of(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win)) == MPIX_ERR_REVOKED);
    CHECK(class_of(MPI_File_write_ordered(file, &own, 1, MPI_INT, MPI_STATUS_IGNORE)) == MPIX_ERR_REVOKED);
    CHECK(class_of(MPI_File_read_at(file, 0, &own, 1, MPI_INT, MPI_STATUS_IGNORE)) == MPIX_ERR_REVOKED);
    CHECK(MPI_Win_free(&win) == MPI_SUCCESS && MPI_File_close(&file) == MPI_SUCCESS);
    CHECK(MPI_Comm_free(&comm) == MPI_SUCCESS && MPI_Barrier(of) == MPI_SUCCESS);
    CHECK(access(name, F_OK) != 0);
}

/* Those who are left are the same for all, in their order. */
static MPI_Comm shrink(MPI_Comm comm) {
    MPI_Comm left, again;
    MPI_Request request;
    int own, sum, one = 1;
    CHECK(MPIX_Comm_shrink(comm, &left) == MPI_SUCCESS);
    MPI_Comm_rank(left, &own);
    CHECK(own == (rank > VICTIM ? rank - 1 : rank));
    CHECK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, left) == MPI_SUCCESS && sum == size - 1);
    CHECK(count_failed(left) == 0);
    CHECK(MPIX_Comm_ishrink(left, &again, &request) == MPI_SUCCESS);
    CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    CHECK(MPI_Bcast(&one, 1, MPI_INT, size - 2, again) == MPI_SUCCESS);
    CHECK(MPI_Comm_free(&again) == MPI_SUCCESS);
    return left;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm one, two, half, left;
    MPI_Comm_dup(MPI_COMM_WORLD, &one);
    MPI_Comm_dup(MPI_COMM_WORLD, &two);
    /* The two sides of an intercommunicator are of even and odd ranks. */
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &half);
    MPI_Comm sides;
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank % 2 == 0, 9, &sides);
    MPI_Comm_split(MPI_COMM_WORLD, rank == VICTIM, 0, &others);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == VICTIM)
        kill(getpid(), SIGKILL);
    find_out(one);
    find_out(MPI_COMM_WORLD);
    agree(one, two);
    left = shrink(one);
    revoke_what_is_made_of(left, argv[0]);
    revoke_one(two, left);
    MPI_Comm_free(&two);
    CHECK(MPI_Comm_free(&left) == MPI_SUCCESS);
    left = shrink(MPI_COMM_WORLD);

    MPI_Comm inter;
    int remote, token = rank;
    CHECK(MPIX_Comm_revoke(sides) == MPI_SUCCESS);
    CHECK(MPIX_Comm_shrink(sides, &inter) == MPI_SUCCESS);
    CHECK(count_failed(sides) == 1);
    MPI_Comm_remote_size(inter, &remote);
    CHECK(remote == (rank % 2 == 0 ? (size / 2 - 1) : (size + 1) / 2));
    CHECK(MPI_Barrier(inter) == MPI_SUCCESS);
    CHECK(MPI_Allreduce(&rank, &token, 1, MPI_INT, MPI_MAX, inter) == MPI_SUCCESS);

    CHECK(MPIX_Comm_agree(MPI_COMM_SELF, &token) == MPI_SUCCESS);
    CHECK(count_failed(MPI_COMM_SELF) == 0);
    CHECK(says(MPIX_ERR_REVOKED, "MPIX_ERR_REVOKED"));
    CHECK(MPI_Barrier(left) == MPI_SUCCESS);
    MPI_Finalize();
    return failed != 0;
}
