/* Collective operations as only C reaches them, with any number of ranks. */

#include "check.h"
#include <stdlib.h>

static int rank, size;

typedef struct {
    double a, b, c, d;
} Matrix;

static Matrix times(Matrix x, Matrix y) {
    return (Matrix){x.a * y.a + x.b * y.c, x.a * y.b + x.b * y.d, x.c * y.a + x.d * y.c, x.c * y.b + x.d * y.d};
}

/* The lower ranks' product stands left. */
static void multiply(void *left, void *inout, int *count, MPI_Datatype *type) {
    int bytes;
    MPI_Type_size(*type, &bytes);
    CHECK(bytes == sizeof(Matrix));
    for (int i = 0; i < *count; i++) ((Matrix *)inout)[i] = times(((Matrix *)left)[i], ((Matrix *)inout)[i]);
}

static Matrix of(int of_rank) {
    return (Matrix){1, of_rank + 1, of_rank % 2, 1};
}

static int same(Matrix x, Matrix y) {
    return memcmp(&x, &y, sizeof x) == 0;
}

static void the_order_of_ranks_is_kept(void) {
    MPI_Datatype matrix;
    MPI_Op product;
    MPI_Type_contiguous(4, MPI_DOUBLE, &matrix);
    MPI_Type_commit(&matrix);
    MPI_Op_create(multiply, 0, &product);
    Matrix own = of(rank), result = own, expected = of(0), before = own;
    for (int i = 1; i < size; i++) expected = times(expected, of(i));
    CHECK(!MPI_Allreduce(&own, &result, 1, matrix, product, MPI_COMM_WORLD) && same(result, expected));
    result = own;
    CHECK(!MPI_Allreduce(MPI_IN_PLACE, &result, 1, matrix, product, MPI_COMM_WORLD) && same(result, expected));
    for (int root = 0; root < size; root++) {
        result = own;
        CHECK(!MPI_Reduce(rank == root ? MPI_IN_PLACE : &own, &result, 1, matrix, product, root, MPI_COMM_WORLD));
        CHECK(same(result, rank == root ? expected : own));
    }
    expected = of(0);
    for (int i = 1; i <= rank; i++) before = expected, expected = times(expected, of(i));
    CHECK(!MPI_Scan(&own, &result, 1, matrix, product, MPI_COMM_WORLD) && same(result, expected));
    result = own;
    CHECK(!MPI_Exscan(&own, &result, 1, matrix, product, MPI_COMM_WORLD) && same(result, before));
    MPI_Op_free(&product);
    MPI_Type_free(&matrix);
}

enum { MANY = 40 };

static void many_go_on_at_once_and_are_done_in_any_order(void) {
    MPI_Request requests[MANY];
    long own[MANY], sum[MANY], root_says[MANY];
    for (int i = 0; i < MANY; i++) {
        own[i] = rank * 100 + i, root_says[i] = rank == i % size ? i : -1;
        if (i % 2 == 0) MPI_Iallreduce(&own[i], &sum[i], 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD, &requests[i]);
        else MPI_Ibcast(&root_says[i], 1, MPI_LONG, i % size, MPI_COMM_WORLD, &requests[i]);
    }
    for (int i = 0; i < MANY; i++) CHECK(!MPI_Wait(&requests[rank % 2 ? MANY - 1 - i : i], MPI_STATUS_IGNORE));
    for (int i = 0; i < MANY; i++) {
        if (i % 2 == 0) CHECK(sum[i] == size * (size - 1) / 2 * 100L + (long)size * i);
        else CHECK(root_says[i] == i);
    }
}

static void persistent_ones_start_in_any_order(void) {
    MPI_Request requests[2];
    int own = 0, sum = 0, word = 0;
    MPI_Allreduce_init(&own, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
    MPI_Bcast_init(&word, 1, MPI_INT, size - 1, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
    for (int round = 0; round < 5; round++) {
        own = rank + round, word = rank == size - 1 ? round : -1;
        CHECK(!MPI_Start(&requests[rank % 2]) && !MPI_Start(&requests[1 - rank % 2]));
        CHECK(!MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        CHECK(sum == size * (size - 1) / 2 + size * round && word == round);
    }
    CHECK(!MPI_Request_free(&requests[0]) && !MPI_Request_free(&requests[1]));
}

static void a_row_of_one_becomes_a_column_of_all(void) {
    MPI_Datatype column, packed_column;
    int *matrix = malloc(sizeof(int) * size * size), *row = malloc(sizeof(int) * size);
    MPI_Type_vector(size, 1, size, MPI_INT, &column);
    MPI_Type_create_resized(column, 0, sizeof(int), &packed_column);
    MPI_Type_commit(&packed_column);
    for (int i = 0; i < size; i++) row[i] = 100 * rank + i;
    CHECK(!MPI_Allgather(row, size, MPI_INT, matrix, 1, packed_column, MPI_COMM_WORLD));
    for (int i = 0; i < size; i++)
        for (int j = 0; j < size; j++) CHECK(matrix[i * size + j] == 100 * j + i);
    MPI_Type_free(&column), MPI_Type_free(&packed_column);
    free(matrix), free(row);
}

static void halos_come_from_both_sides(void) {
    MPI_Comm ring;
    int out[2] = {10 * rank, 10 * rank + 1}, in[2] = {-1, -1}, kind, left, right;
    CHECK(!MPI_Cart_create(MPI_COMM_WORLD, 1, &size, (int[]){1}, 0, &ring));
    CHECK(!MPI_Topo_test(ring, &kind) && kind == MPI_CART && !MPI_Cart_shift(ring, 0, 1, &left, &right));
    CHECK(!MPI_Neighbor_alltoall(out, 1, MPI_INT, in, 1, MPI_INT, ring));
    CHECK(in[0] == 10 * left + 1 && in[1] == 10 * right);
    MPI_Comm_free(&ring);
}

static void what_is_wrong_is_told(void) {
    int word = 0, code;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    code = MPI_Bcast(&word, 1, MPI_INT, size, MPI_COMM_WORLD);
    CHECK(class_of(code) == MPI_ERR_ROOT && says(code, "MPI_Bcast: root"));
    code = MPI_Bcast(&word, -1, MPI_INT, 0, MPI_COMM_WORLD);
    CHECK(class_of(code) == MPI_ERR_COUNT && says(code, "buffer: count is -1"));
    code = MPI_Allreduce(&word, NULL, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(class_of(code) == MPI_ERR_BUFFER && says(code, "recvbuf is NULL"));
    code = MPI_Allreduce(MPI_IN_PLACE, &word, 1, MPI_FLOAT, MPI_BAND, MPI_COMM_WORLD);
    CHECK(class_of(code) == MPI_ERR_OP && says(code, "MPI_FLOAT"));
    code = MPI_Neighbor_allgather(&word, 1, MPI_INT, &word, 1, MPI_INT, MPI_COMM_WORLD);
    CHECK(class_of(code) == MPI_ERR_TOPOLOGY && says(code, "no topology"));
    code = MPI_Allgatherv(&word, 1, MPI_INT, &word, NULL, NULL, MPI_INT, MPI_COMM_WORLD);
    CHECK(class_of(code) == MPI_ERR_ARG && says(code, "recvcounts is NULL"));
    if (size > 1) {
        int words[2] = {7, 7};
        code = MPI_Bcast(words, rank == 0 ? 2 : 1, MPI_INT, 0, MPI_COMM_WORLD);
        if (rank == 0) CHECK(!code);
        if (rank == 1) CHECK(class_of(code) == MPI_ERR_TRUNCATE && says(code, "sent more than the 4 bytes"));
    }
}

/* Who gets another length than it expects notices that, however the bytes came to it. */
static void a_broadcast_of_another_length_is_noticed_by_all(void) {
    int data[10] = {0};
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int sent = 1; sent <= 10; sent += 9) {
        int code = MPI_Bcast(data, rank ? 11 - sent : sent, MPI_INT, 0, MPI_COMM_WORLD);
        CHECK((code != MPI_SUCCESS) == (rank != 0));
        MPI_Request request;
        CHECK(!MPI_Ibcast(data, rank ? 11 - sent : sent, MPI_INT, 0, MPI_COMM_WORLD, &request));
        CHECK((MPI_Wait(&request, MPI_STATUS_IGNORE) != MPI_SUCCESS) == (rank != 0));
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

int main(void) {
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    the_order_of_ranks_is_kept();
    a_broadcast_of_another_length_is_noticed_by_all();
    many_go_on_at_once_and_are_done_in_any_order();
    persistent_ones_start_in_any_order();
    a_row_of_one_becomes_a_column_of_all();
    halos_come_from_both_sides();
    what_is_wrong_is_told();
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return failed;
}
