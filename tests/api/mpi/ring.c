/* A token goes round: each process adds its rank. */

#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int rank, size, token = 0;
    MPI_Status status;
    MPI_Request request;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Irecv(&token, 1, MPI_INT, (rank + size - 1) % size, 7, MPI_COMM_WORLD, &request);
    if (rank == 0) MPI_Send(&(int){100}, 1, MPI_INT, 1 % size, 7, MPI_COMM_WORLD);
    MPI_Wait(&request, &status);
    if (rank != 0) MPI_Send(&(int){token + rank}, 1, MPI_INT, (rank + 1) % size, 7, MPI_COMM_WORLD);
    printf("rank %d of %d: %d with tag %d\n", rank, size, token, status.MPI_TAG);
    MPI_Finalize();
    return 0;
}
