/* What the standard leaves to a library, and programs that were written for MPICH and Open MPI rely on. */

#include "check.h"
#include <stdlib.h>

static int handled;

static void forgives(MPI_File *file, int *code, ...) {
    (void)file;
    handled++;
    *code = MPI_SUCCESS;
}

static void counts(MPI_Comm *comm, int *code, ...) {
    (void)code;
    handled += *comm == MPI_COMM_WORLD;
}

/* Errors of no object go to MPI_COMM_SELF's handler, or to MPI_COMM_WORLD's, as in MPI 3, if the former has none. */
static void handlers(void) {
    MPI_Errhandler own;
    MPI_Comm comm, freed;
    MPI_Datatype datatype;
    CHECK(MPI_Comm_create_errhandler(counts, &own) == MPI_SUCCESS);
    CHECK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, own) == MPI_SUCCESS);
    CHECK(class_of(MPI_Type_contiguous(-1, MPI_INT, &datatype)) == MPI_ERR_COUNT && handled == 1);
    CHECK(MPI_Comm_dup(MPI_COMM_WORLD, &comm) == MPI_SUCCESS);
    freed = comm;
    CHECK(MPI_Comm_free(&comm) == MPI_SUCCESS);
    CHECK(class_of(MPI_Barrier(freed)) == MPI_ERR_COMM && handled == 2);
    CHECK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN) == MPI_SUCCESS);
    CHECK(class_of(MPI_Type_contiguous(-1, MPI_INT, &datatype)) == MPI_ERR_COUNT && handled == 2);
    CHECK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN) == MPI_SUCCESS);
    CHECK(MPI_Errhandler_free(&own) == MPI_SUCCESS);

    /* What a handler makes of the code is what the call returns. */
    MPI_File file;
    handled = 0;
    CHECK(MPI_File_create_errhandler(forgives, &own) == MPI_SUCCESS);
    CHECK(MPI_File_set_errhandler(MPI_FILE_NULL, own) == MPI_SUCCESS && MPI_Errhandler_free(&own) == MPI_SUCCESS);
    CHECK(MPI_File_open(MPI_COMM_SELF, "there-is-none", MPI_MODE_RDONLY, MPI_INFO_NULL, &file) == MPI_SUCCESS);
    CHECK(handled == 1 && MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN) == MPI_SUCCESS);
}

static int added;

static int fails(MPI_Comm comm, int keyval, void *extra, void *value, void *copied, int *flag) {
    (void)comm, (void)keyval, (void)extra, (void)value, (void)copied;
    *flag = 1;
    return added;
}

static int frees(MPI_Comm comm, int keyval, void *value, void *extra) {
    (void)comm, (void)value, (void)extra;
    return MPI_Comm_free_keyval(&keyval);
}

static void attributes(void) {
    int keyval, again, class;
    MPI_Comm comm, copy = MPI_COMM_WORLD;
    CHECK(MPI_Comm_dup(MPI_COMM_SELF, &comm) == MPI_SUCCESS);
    /* The code of a program's function is what the call returns, and there is no duplicate. */
    CHECK(MPI_Add_error_class(&class) == MPI_SUCCESS && MPI_Add_error_code(class, &added) == MPI_SUCCESS);
    CHECK(MPI_Comm_create_keyval(fails, MPI_COMM_NULL_DELETE_FN, &keyval, NULL) == MPI_SUCCESS);
    CHECK(MPI_Comm_set_attr(comm, keyval, NULL) == MPI_SUCCESS);
    CHECK(MPI_Comm_dup(comm, &copy) == added && copy == MPI_COMM_NULL);
    CHECK(MPI_Comm_delete_attr(comm, keyval) == MPI_SUCCESS && MPI_Comm_free_keyval(&keyval) == MPI_SUCCESS);
    /* A key may be freed again while an object has it. */
    CHECK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, frees, &keyval, NULL) == MPI_SUCCESS);
    again = keyval;
    CHECK(MPI_Comm_set_attr(comm, keyval, NULL) == MPI_SUCCESS && MPI_Comm_free_keyval(&keyval) == MPI_SUCCESS);
    CHECK(MPI_Comm_free_keyval(&again) == MPI_SUCCESS && MPI_Comm_free(&comm) == MPI_SUCCESS);
    int *last, flag;
    CHECK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &last, &flag) == MPI_SUCCESS && flag);
    CHECK(*last >= MPI_ERR_LASTCODE);
}

#define REDUCED(type, datatype, op, one, other, expected)                                                             \
    do {                                                                                                              \
        type in = one, out = other;                                                                                   \
        CHECK(MPI_Reduce_local(&in, &out, 1, datatype, op) == MPI_SUCCESS && out == (type)(expected));                \
    } while (0)

static void reductions(void) {
    REDUCED(char, MPI_CHAR, MPI_SUM, 20, 22, 42);
    REDUCED(char, MPI_CHAR, MPI_MIN, -1, 1, (char)-1 < 0 ? -1 : 1);
    REDUCED(float, MPI_FLOAT, MPI_LAND, 0.5f, -2, 1);
    REDUCED(double, MPI_DOUBLE, MPI_LXOR, 0.5, -2, 0);
    REDUCED(double, MPI_DOUBLE, MPI_LOR, 0, -0.0, 0);
    REDUCED(long double, MPI_LONG_DOUBLE, MPI_LAND, 3, 4, 1);
    REDUCED(long double, MPI_LONG_DOUBLE, MPI_LXOR, 3, 4, 0);
    REDUCED(MPI_Aint, MPI_AINT, MPI_LOR, 0, 7, 1);
    REDUCED(MPI_Count, MPI_COUNT, MPI_LAND, 0, 7, 0);
    REDUCED(MPI_Offset, MPI_OFFSET, MPI_LXOR, 0, 7, 1);
    /* One buffer in two places is noticed. */
    int numbers[4] = {0};
    CHECK(class_of(MPI_Reduce_local(numbers, numbers, 4, MPI_INT, MPI_SUM)) == MPI_ERR_BUFFER);
    CHECK(class_of(MPI_Reduce_local(MPI_IN_PLACE, numbers, 4, MPI_INT, MPI_SUM)) == MPI_ERR_BUFFER);
    CHECK(class_of(MPI_Gather(numbers, 4, MPI_INT, numbers, 4, MPI_INT, 0, MPI_COMM_SELF)) == MPI_ERR_BUFFER);
    CHECK(class_of(MPI_Scatter(numbers, 4, MPI_INT, numbers, 4, MPI_INT, 0, MPI_COMM_SELF)) == MPI_ERR_BUFFER);
    CHECK(class_of(MPI_Allgather(numbers, 4, MPI_INT, numbers, 4, MPI_INT, MPI_COMM_SELF)) == MPI_ERR_BUFFER);
    CHECK(class_of(MPI_Alltoall(numbers, 4, MPI_INT, numbers, 4, MPI_INT, MPI_COMM_SELF)) == MPI_ERR_BUFFER);
    CHECK(MPI_Gather(numbers, 0, MPI_INT, numbers, 0, MPI_INT, 0, MPI_COMM_SELF) == MPI_SUCCESS);
}

static void requests_and_dimensions(void) {
    int flag = 0, count, dims[3] = {0}, periods[2] = {0}, too_many[2] = {2, 2};
    MPI_Comm comm = MPI_COMM_SELF;
    CHECK(MPI_Testall(0, NULL, &flag, NULL) == MPI_SUCCESS && flag && MPI_Waitall(0, NULL, NULL) == MPI_SUCCESS);
    CHECK(MPI_Waitsome(0, NULL, &count, NULL, NULL) == MPI_SUCCESS && count == MPI_UNDEFINED);
    CHECK(MPI_Dims_create(936, 3, dims) == MPI_SUCCESS && dims[0] == 13 && dims[1] == 9 && dims[2] == 8);
    CHECK(MPI_Cart_create(MPI_COMM_SELF, 2, too_many, periods, 0, &comm) != MPI_SUCCESS && comm == MPI_COMM_NULL);
}

static void windows(void) {
    MPI_Win win;
    MPI_Info info;
    char value[MPI_MAX_INFO_VAL + 1], memory[64];
    int flag;
    CHECK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_SELF, &win) == MPI_SUCCESS);
    CHECK(MPI_Info_create(&info) == MPI_SUCCESS && MPI_Info_set(info, "no_such_hint", "1") == MPI_SUCCESS);
    CHECK(MPI_Info_set(info, "no_locks", "true") == MPI_SUCCESS && MPI_Win_set_info(win, info) == MPI_SUCCESS);
    CHECK(MPI_Info_free(&info) == MPI_SUCCESS && MPI_Win_get_info(win, &info) == MPI_SUCCESS);
    CHECK(MPI_Info_get(info, "no_such_hint", MPI_MAX_INFO_VAL, value, &flag) == MPI_SUCCESS && !flag);
    CHECK(MPI_Info_get(info, "no_locks", MPI_MAX_INFO_VAL, value, &flag) == MPI_SUCCESS && flag);
    CHECK(strcmp(value, "true") == 0);
    CHECK(MPI_Info_get(info, "accumulate_ordering", MPI_MAX_INFO_VAL, value, &flag) == MPI_SUCCESS && flag);
    CHECK(strcmp(value, "rar,raw,war,waw") == 0 && MPI_Info_free(&info) == MPI_SUCCESS);
    /* An operation may lead from a region into the next one, if nothing is between them. */
    CHECK(MPI_Win_attach(win, memory, 32) == MPI_SUCCESS && MPI_Win_attach(win, memory + 32, 16) == MPI_SUCCESS);
    MPI_Aint place;
    CHECK(MPI_Get_address(memory + 16, &place) == MPI_SUCCESS);
    memset(memory, 0, sizeof memory);
    CHECK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN) == MPI_SUCCESS);
    CHECK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win) == MPI_SUCCESS);
    CHECK(MPI_Put("0123456789abcdef0123456789abcdef", 32, MPI_CHAR, 0, place, 32, MPI_CHAR, win) == MPI_SUCCESS);
    CHECK(class_of(MPI_Win_free(&win)) == MPI_ERR_RMA_SYNC);
    CHECK(MPI_Win_unlock(0, win) == MPI_SUCCESS && memcmp(memory + 16, "0123456789abcdef0123456789abcdef", 32) == 0);
    CHECK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win) == MPI_SUCCESS);
    int code = MPI_Put(memory, 33, MPI_CHAR, 0, place, 33, MPI_CHAR, win), end = MPI_Win_unlock(0, win);
    CHECK(class_of(code) == MPI_ERR_RMA_RANGE || class_of(end) == MPI_ERR_RMA_RANGE);
    CHECK(MPI_Win_free(&win) == MPI_SUCCESS);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    handlers();
    attributes();
    reductions();
    requests_and_dimensions();
    windows();
    MPI_Finalize();
    return failed != 0;
}
