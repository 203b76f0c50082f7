/* A child of rank 0 does what the first argument says. The parent goes on. */

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void child(const char *what) {
    int rank = -1, finalized = 0, code;
    char text[MPI_MAX_ERROR_STRING];
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Finalized(&finalized);
    if (rank != 0 || !finalized) exit(2);
    if (!strcmp(what, "finalize")) {
        exit(MPI_Finalize() == MPI_SUCCESS ? 0 : 3);
    } else if (!strcmp(what, "abort")) {
        MPI_Abort(MPI_COMM_WORLD, 5);
    } else if (!strcmp(what, "send")) {
        MPI_Send(&rank, 1, MPI_INT, 1, 7, MPI_COMM_WORLD); /* ends the child */
        exit(4);
    } else if (!strcmp(what, "return")) {
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        code = MPI_Send(&rank, 1, MPI_INT, 1, 7, MPI_COMM_WORLD);
        if (code == MPI_SUCCESS) exit(6);
        MPI_Error_string(code, text, &(int){0});
        fprintf(stderr, "%s\n", text);
    }
    exit(0);
}

int main(int argc, char **argv) {
    int rank, status, got = -1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Sendrecv(&rank, 1, MPI_INT, 1 - rank, 7, &got, 1, MPI_INT, 1 - rank, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 0) {
        pid_t pid = fork();
        if (pid == 0) child(argv[1]);
        waitpid(pid, &status, 0);
        printf("child %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    }
    for (int round = 0; round < 100; round++) {
        MPI_Sendrecv(&round, 1, MPI_INT, 1 - rank, 7, &got, 1, MPI_INT, 1 - rank, 7, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        if (got != round) return 1;
    }
    MPI_Finalize();
    printf("went on\n");
    return 0;
}
