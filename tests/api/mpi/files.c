/* Files, by any number of processes; the file is made beside the program. */

#include "check.h"

static int called;

static void handler(MPI_File *file, int *code, ...) {
    called += *file != MPI_FILE_NULL && class_of(*code) == MPI_ERR_ARG;
}

static int rank, size;

/* Process r sees the numbers r, r + size, r + 2 * size, ... */
static void views(MPI_File file) {
    MPI_Datatype every, type, etype;
    MPI_Offset at, displacement;
    MPI_Status status;
    char datarep[MPI_MAX_DATAREP_STRING];
    int numbers[4], back[4], count, i;
    MPI_Type_create_resized(MPI_INT, 0, size * (int)sizeof(int), &every);
    MPI_Type_commit(&every);
    CHECK(!MPI_File_set_view(file, rank * (int)sizeof(int), MPI_INT, every, "native", MPI_INFO_NULL));
    MPI_Type_free(&every);
    for (i = 0; i < 4; i++) numbers[i] = rank + i * size;
    CHECK(!MPI_File_write_all(file, numbers, 4, MPI_INT, &status));
    CHECK(!MPI_Get_count(&status, MPI_INT, &count) && count == 4);
    CHECK(!MPI_File_get_position(file, &at) && at == 4);
    CHECK(!MPI_File_get_byte_offset(file, 2, &at) && at == (rank + 2 * size) * (int)sizeof(int));
    CHECK(!MPI_File_get_view(file, &displacement, &etype, &type, datarep));
    CHECK(displacement == rank * (int)sizeof(int) && etype == MPI_INT && !strcmp(datarep, "native"));
    MPI_Type_free(&type);
    CHECK(!MPI_File_sync(file) && !MPI_Barrier(MPI_COMM_WORLD));
    CHECK(!MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "internal", MPI_INFO_NULL));
    CHECK(!MPI_File_get_size(file, &at) && at == 4 * size * (int)sizeof(int));
    CHECK(!MPI_File_seek(file, -4, MPI_SEEK_END));
    CHECK(!MPI_File_read_all_begin(file, back, 4, MPI_INT) && !MPI_File_read_all_end(file, back, &status));
    for (i = 0; i < 4; i++) CHECK(back[i] == 4 * size - 4 + i);
    CHECK(!MPI_File_read_at(file, 4 * size - 1, back, 4, MPI_INT, &status));
    CHECK(!MPI_Get_count(&status, MPI_INT, &count) && count == 1 && back[0] == 4 * size - 1);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void pointers(MPI_File file) {
    MPI_Offset at;
    MPI_Request request;
    MPI_Status status;
    int number = 100 + rank, sum = 0, back, i;
    CHECK(!MPI_File_set_size(file, 0) && !MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
    CHECK(!MPI_File_write_ordered(file, &number, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK(!MPI_File_iwrite_shared(file, &number, 1, MPI_INT, &request) && !MPI_Wait(&request, &status));
    CHECK(!MPI_File_sync(file) && !MPI_Barrier(MPI_COMM_WORLD));
    CHECK(!MPI_File_get_position_shared(file, &at) && at == 2 * size);
    CHECK(!MPI_File_iread_at(file, rank, &back, 1, MPI_INT, &request) && !MPI_Wait(&request, &status));
    CHECK(back == number);
    for (i = size; i < 2 * size; i++) {
        CHECK(!MPI_File_read_at(file, i, &back, 1, MPI_INT, &status));
        sum += back - 100;
    }
    CHECK(sum == size * (size - 1) / 2);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(!MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
    CHECK(!MPI_File_read_ordered_begin(file, &back, 1, MPI_INT));
    CHECK(class_of(MPI_File_read_all_end(file, &back, &status)) == MPI_ERR_OTHER);
    CHECK(!MPI_File_read_ordered_end(file, &back, &status) && back == number);
}

/* Process r sees the longs r, r + size, r + 2 * size, ..., which have four bytes each in the file. */
static void portable(MPI_File file) {
    MPI_Datatype every, type, etype;
    MPI_Aint extent;
    MPI_Offset at, displacement;
    MPI_Status status;
    char datarep[MPI_MAX_DATAREP_STRING];
    struct { double value; short number; } pairs[2] = {{1.0, -2}, {-0.5, 3}}, same[2];
    long numbers[3], back[4] = {0}, large = 1L << 40;
    unsigned char bytes[10];
    int count, one = 1, i;
    CHECK(!MPI_File_set_size(file, 0));
    MPI_Type_create_subarray(1, &size, &one, &rank, MPI_ORDER_C, MPI_LONG, &every);
    MPI_Type_commit(&every);
    CHECK(!MPI_File_set_view(file, 0, MPI_LONG, every, "external32", MPI_INFO_NULL));
    MPI_Type_free(&every);
    CHECK(!MPI_File_get_view(file, &displacement, &etype, &type, datarep));
    CHECK(etype == MPI_LONG && !strcmp(datarep, "external32"));
    MPI_Type_free(&type);
    CHECK(!MPI_File_get_type_extent(file, MPI_LONG, &extent) && extent == 4);
    CHECK(!MPI_File_get_type_extent(file, MPI_DOUBLE_INT, &extent) && extent == 12);
    for (i = 0; i < 3; i++) numbers[i] = -(rank + i * size) - 1;
    CHECK(!MPI_File_write_all(file, numbers, 3, MPI_LONG, &status));
    CHECK(!MPI_Get_count(&status, MPI_LONG, &count) && count == 3);
    CHECK(!MPI_File_get_position(file, &at) && at == 3);
    CHECK(!MPI_File_get_byte_offset(file, 2, &at) && at == 4 * (rank + 2 * size));
    CHECK(!MPI_File_sync(file) && !MPI_Barrier(MPI_COMM_WORLD));
    CHECK(!MPI_File_get_size(file, &at) && at == 12 * size);
    CHECK(!MPI_File_read_at(file, 1, back, 4, MPI_LONG, &status));
    CHECK(!MPI_Get_count(&status, MPI_LONG, &count) && count == 2 && back[0] == numbers[1] && back[1] == numbers[2]);
    CHECK(class_of(MPI_File_write_at(file, 0, &large, 1, MPI_LONG, &status)) == MPI_ERR_CONVERSION);
    CHECK(!MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    CHECK(!MPI_File_read_at(file, 4 * rank, bytes, 4, MPI_BYTE, &status));
    CHECK(bytes[0] == 255 && bytes[1] == 255 && bytes[2] == 255 && bytes[3] == 255 - rank);
    /* A structure in memory, its numbers one after the other in the file. */
    MPI_Aint places[2] = {0, sizeof(double)};
    int lengths[2] = {1, 1};
    MPI_Datatype types[2] = {MPI_DOUBLE, MPI_SHORT}, pair;
    MPI_Type_create_struct(2, lengths, places, types, &pair);
    MPI_Type_commit(&pair);
    CHECK(!MPI_File_set_view(file, 20 * rank, MPI_BYTE, MPI_BYTE, "external32", MPI_INFO_NULL));
    CHECK(!MPI_File_write(file, pairs, 2, pair, &status) && !MPI_Get_count(&status, pair, &count) && count == 2);
    CHECK(!MPI_File_read_at(file, 0, same, 2, pair, &status) && same[1].value == -0.5 && same[1].number == 3);
    CHECK(!MPI_File_set_view(file, 20 * rank, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    CHECK(!MPI_File_read_at(file, 0, bytes, 10, MPI_BYTE, &status));
    CHECK(!memcmp(bytes, "\x3f\xf0\0\0\0\0\0\0\xff\xfe", 10));
    MPI_Type_free(&pair);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void failures(const char *name, MPI_File file) {
    MPI_File none = MPI_FILE_NULL;
    MPI_Errhandler own, found;
    MPI_Status status;
    int code, byte = 0;
    MPI_File_get_errhandler(file, &found);
    CHECK(found == MPI_ERRORS_RETURN);
    code = MPI_File_open(MPI_COMM_WORLD, "no such folder/file", MPI_MODE_RDONLY, MPI_INFO_NULL, &none);
    CHECK(class_of(code) == MPI_ERR_NO_SUCH_FILE && says(code, "MPI_File_open: ") && none == MPI_FILE_NULL);
    code = MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_RDWR, MPI_INFO_NULL, &none);
    CHECK(class_of(code) == MPI_ERR_FILE_EXISTS);
    code = MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY | MPI_MODE_RDWR, MPI_INFO_NULL, &none);
    CHECK(class_of(code) == MPI_ERR_AMODE);
    CHECK(class_of(MPI_File_delete("no such file", MPI_INFO_NULL)) == MPI_ERR_NO_SUCH_FILE);
    CHECK(class_of(MPI_File_close(&none)) == MPI_ERR_FILE);
    CHECK(class_of(MPI_File_read(MPI_FILE_NULL, &byte, 1, MPI_BYTE, &status)) == MPI_ERR_FILE);
    CHECK(class_of(MPI_File_write_at(file, 0, &byte, -1, MPI_BYTE, &status)) == MPI_ERR_COUNT);
    CHECK(class_of(MPI_File_write_at(file, 0, NULL, 1, MPI_BYTE, &status)) == MPI_ERR_BUFFER);
    CHECK(class_of(MPI_File_write_at(file, 0, &byte, 1, MPI_DATATYPE_NULL, &status)) == MPI_ERR_TYPE);
    code = MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "external64", MPI_INFO_NULL);
    CHECK(class_of(code) == MPI_ERR_UNSUPPORTED_DATAREP);
    MPI_File_create_errhandler(handler, &own);
    MPI_File_set_errhandler(file, own);
    MPI_Errhandler_free(&own);
    CHECK(class_of(MPI_File_write_at(file, -1, &byte, 1, MPI_INT, &status)) == MPI_ERR_ARG && called == 1);
    CHECK(class_of(MPI_File_seek(file, -1, MPI_SEEK_SET)) == MPI_ERR_ARG && called == 2);
}

int main(int argc, char **argv) {
    char name[4096];
    int flag, amode = MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE;
    MPI_File file;
    MPI_Offset bytes;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    snprintf(name, sizeof name, "%s.%d.data", argv[0], size);
    CHECK(!MPI_File_open(MPI_COMM_WORLD, name, amode, MPI_INFO_NULL, &file));
    views(file);
    pointers(file);
    CHECK(!MPI_File_set_atomicity(file, 1) && !MPI_File_get_atomicity(file, &flag) && flag);
    views(file);
    pointers(file);
    CHECK(!MPI_File_preallocate(file, 10000) && !MPI_File_get_size(file, &bytes) && bytes == 10000);
    portable(file);
    failures(name, file);
    CHECK(!MPI_File_close(&file) && file == MPI_FILE_NULL);
    CHECK(class_of(MPI_File_delete(name, MPI_INFO_NULL)) == MPI_ERR_NO_SUCH_FILE);
    MPI_Finalize();
    return failed;
}
