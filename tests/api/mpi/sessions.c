/* A program that has sessions only, one after the other: each rank sends to its right neighbour. */

#include "check.h"
#include <stdlib.h>

static void pass_on(const char *tag) {
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    int rank, size, got = -1;
    CHECK(!MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    CHECK(!MPI_Group_from_session_pset(session, "mpi://WORLD", &group));
    CHECK(!MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm) && !MPI_Group_free(&group));
    CHECK(!MPI_Comm_rank(comm, &rank) && !MPI_Comm_size(comm, &size));
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    CHECK(!MPI_Sendrecv(&rank, 1, MPI_INT, right, 1, &got, 1, MPI_INT, left, 1, comm, MPI_STATUS_IGNORE));
    CHECK(got == left && !MPI_Comm_free(&comm) && !MPI_Session_finalize(&session));
}

int main(int argc, char **argv) {
    pass_on("first");
    pass_on("second");
    return failed ? 1 : argc > 1 ? atoi(argv[1]) : 0;
}
