/* What a binary takes from the header, so that any library with the standard's interface must agree on it: constants,
 * handles, the layout of a status, callbacks. Prints what each rank found; no library says it otherwise. */

#include <mpi.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;

static void say(const char *what, long one, long two, long three) {
    printf("%d %s %ld %ld %ld\n", rank, what, one, two, three);
}

static void times(void *left, void *right, int *length, MPI_Datatype *type) {
    (void)type;
    for (int at = 0; at < *length; at++) ((int *)right)[at] *= ((int *)left)[at];
}

static int copied(MPI_Comm comm, int key, void *extra, void *old, void *new, int *flag) {
    (void)comm, (void)key;
    *(void **)new = (char *)old + *(int *)extra;
    *flag = 1;
    return MPI_SUCCESS;
}

static int errors;

static void count_errors(MPI_Comm *comm, int *code, ...) {
    int class;
    (void)comm;
    MPI_Error_class(*code, &class);
    errors += class == MPI_ERR_RANK;
}

static void messages(void) {
    int right = (rank + 1) % size, left = (rank + size - 1) % size, count, flag;
    struct pair { char letter; double number; } pair = {'a', rank}, other = {0, 0};
    int lengths[] = {1, 1};
    MPI_Aint places[] = {offsetof(struct pair, letter), offsetof(struct pair, number)};
    MPI_Datatype kinds[] = {MPI_CHAR, MPI_DOUBLE}, made, resized;
    MPI_Type_create_struct(2, lengths, places, kinds, &made);
    MPI_Type_create_resized(made, 0, sizeof pair, &resized);
    MPI_Type_commit(&resized);
    MPI_Request requests[2];
    MPI_Status statuses[2], status;
    MPI_Irecv(&other, 1, resized, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(&pair, 1, resized, right, 5, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, statuses);
    MPI_Barrier(MPI_COMM_WORLD); /* the next messages would match as well */
    MPI_Get_count(&statuses[0], resized, &count);
    say("status", statuses[0].MPI_SOURCE, statuses[0].MPI_TAG, count);
    say("struct", other.letter, other.number, requests[0] == MPI_REQUEST_NULL);
    MPI_Sendrecv(&rank, 1, MPI_INT, MPI_PROC_NULL, 0, &count, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &status);
    say("nobody", status.MPI_SOURCE == MPI_PROC_NULL, status.MPI_TAG == MPI_ANY_TAG, status.MPI_ERROR >= 0);
    MPI_Isend(MPI_BOTTOM, 0, MPI_LONG_DOUBLE, left, 6, MPI_COMM_WORLD, &requests[0]);
    MPI_Probe(right, 6, MPI_COMM_WORLD, &status);
    MPI_Recv(MPI_BOTTOM, 0, MPI_LONG_DOUBLE, right, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Test_cancelled(&status, &flag);
    say("probe", status.MPI_SOURCE, status.MPI_TAG, flag);
    MPI_Type_free(&made);
    MPI_Type_free(&resized);
}

static void collectives(void) {
    int own[2] = {rank + 2, 1}, result[2], sum = rank, total = -1;
    struct { double value; int index; } here = {rank % 2, rank}, found;
    MPI_Op op;
    MPI_Op_create(times, 1, &op);
    MPI_Allreduce(own, result, 2, MPI_INT, op, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(&here, &found, 1, MPI_DOUBLE_INT, MPI_MAXLOC, MPI_COMM_WORLD);
    say("reduced", result[0], sum, found.index);
    MPI_Exscan(&own[1], &total, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    say("scanned", rank ? total : 0, MPI_Op_free(&op) == MPI_SUCCESS, op == MPI_OP_NULL);
}

static void objects(void) {
    MPI_Comm part, copy;
    MPI_Group all, some;
    int key, extra = 3, flag, compared, odd = rank % 2, translated;
    char value[8], base[8], *kept, text[MPI_MAX_OBJECT_NAME];
    MPI_Comm_split(MPI_COMM_WORLD, odd ? MPI_UNDEFINED : 0, -rank, &part);
    if (part != MPI_COMM_NULL) {
        int place;
        MPI_Comm_rank(part, &place);
        say("split", place, rank, 0);
        MPI_Comm_free(&part);
    }
    MPI_Comm_create_keyval(copied, MPI_COMM_NULL_DELETE_FN, &key, &extra);
    MPI_Comm_set_attr(MPI_COMM_WORLD, key, base);
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Comm_get_attr(copy, key, &kept, &flag);
    MPI_Comm_compare(MPI_COMM_WORLD, copy, &compared);
    say("attribute", flag, kept - base, compared == MPI_CONGRUENT);
    int *bound;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &bound, &flag);
    say("bound", flag, *bound >= 32767, MPI_KEYVAL_INVALID != key);
    MPI_Errhandler handler;
    MPI_Comm_create_errhandler(count_errors, &handler);
    MPI_Comm_set_errhandler(copy, handler);
    MPI_Send(&rank, 1, MPI_INT, size, 0, copy);
    say("errors", errors, 0, 0);
    MPI_Comm_group(copy, &all);
    MPI_Group_incl(all, 1, &(int){0}, &some);
    MPI_Group_translate_ranks(all, 1, &rank, some, &translated);
    say("group", translated == MPI_UNDEFINED ? -1 : translated, 0, 0);
    MPI_Type_get_name(MPI_UINT32_T, text, &flag);
    say(text, flag, 0, 0);
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "key", "value");
    int length = sizeof value;
    MPI_Info_get_string(info, "key", &length, value, &flag);
    say(value, flag, length, 0);
    MPI_Info_free(&info);
    MPI_Group_free(&all);
    MPI_Group_free(&some);
    MPI_Errhandler_free(&handler);
    MPI_Comm_free(&copy);
    MPI_Comm_delete_attr(MPI_COMM_WORLD, key);
    MPI_Comm_free_keyval(&key);
}

static void windows(void) {
    int *place, got = -1, one = 1, before = -1;
    MPI_Win window;
    MPI_Win_allocate(sizeof *place, sizeof *place, MPI_INFO_NULL, MPI_COMM_WORLD, &place, &window);
    *place = 100 * rank;
    MPI_Win_fence(MPI_MODE_NOPRECEDE, window);
    MPI_Get(&got, 1, MPI_INT, (rank + 1) % size, 0, 1, MPI_INT, window);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, window);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, (rank + 1) % size, 0, window);
    MPI_Fetch_and_op(&one, &before, MPI_INT, (rank + 1) % size, 0, MPI_SUM, window);
    MPI_Win_unlock((rank + 1) % size, window);
    MPI_Barrier(MPI_COMM_WORLD);
    say("window", got, before, 0);
    MPI_Win_free(&window);
}

int main(int argc, char **argv) {
    int given, initialized;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &given);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == 0 && argc > 1) {
        char text[MPI_MAX_LIBRARY_VERSION_STRING];
        MPI_Get_library_version(text, &argc);
        printf("library %s\n", text);
    }
    MPI_Initialized(&initialized);
    say("thread", given == MPI_THREAD_MULTIPLE || given == MPI_THREAD_SERIALIZED, initialized, size);
    messages();
    collectives();
    objects();
    windows();
    return MPI_Finalize();
}
