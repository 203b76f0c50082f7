/* Info objects, attributes, groups, sessions, statuses and generalized requests. */

#include "check.h"

static int copied, deleted;

static int copy(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag) {
    copied += comm == MPI_COMM_SELF && extra == &copied && keyval > 0;
    *(void **)out = in;
    *flag = 1;
    return MPI_SUCCESS;
}

static int delete(MPI_Comm comm, int keyval, void *value, void *extra) {
    deleted += comm != MPI_COMM_NULL && extra == &copied && keyval > 0;
    return value == &failed ? MPI_ERR_ARG : MPI_SUCCESS;
}

static void info(void) {
    MPI_Info one, two;
    char text[MPI_MAX_INFO_VAL];
    int number, flag, room = 3;
    CHECK(MPI_Info_create(&one) == MPI_SUCCESS && MPI_Info_set(one, "key", "value") == MPI_SUCCESS);
    CHECK(MPI_Info_dup(one, &two) == MPI_SUCCESS && MPI_Info_set(one, "more", "") == MPI_SUCCESS);
    CHECK(MPI_Info_get_nkeys(one, &number) == MPI_SUCCESS && number == 2);
    CHECK(MPI_Info_get_nkeys(two, &number) == MPI_SUCCESS && number == 1);
    CHECK(MPI_Info_get_string(two, "key", &room, text, &flag) == MPI_SUCCESS && flag && !strcmp(text, "va") && room == 6);
    room = 0;
    CHECK(MPI_Info_get_string(two, "key", &room, NULL, &flag) == MPI_SUCCESS && flag && room == 6);
    CHECK(MPI_Info_get(two, "key", 4, text, &flag) == MPI_SUCCESS && flag && !strcmp(text, "valu"));
    CHECK(MPI_Info_get(two, "none", 4, text, &flag) == MPI_SUCCESS && !flag);
    CHECK(MPI_Info_get_nthkey(one, 1, text) == MPI_SUCCESS && !strcmp(text, "more"));
    CHECK(class_of(MPI_Info_get_nthkey(one, 2, text)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Info_delete(two, "none")) == MPI_ERR_INFO_NOKEY);
    CHECK(class_of(MPI_Info_set(MPI_INFO_ENV, "key", "value")) == MPI_ERR_INFO);
    CHECK(MPI_Info_free(&one) == MPI_SUCCESS && one == MPI_INFO_NULL && class_of(MPI_Info_free(&one)) == MPI_ERR_INFO);
    CHECK(class_of(MPI_Info_set((MPI_Info)MPI_COMM_WORLD, "key", "value")) == MPI_ERR_INFO);
    CHECK(MPI_Info_free(&two) == MPI_SUCCESS);
}

static void attributes(void) {
    int keyval, plain, flag, value, *got;
    MPI_Comm duplicate;
    CHECK(MPI_Comm_create_keyval(copy, delete, &keyval, &copied) == MPI_SUCCESS);
    CHECK(MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &plain, NULL) == MPI_SUCCESS);
    CHECK(MPI_Comm_get_attr(MPI_COMM_SELF, keyval, &got, &flag) == MPI_SUCCESS && !flag);
    CHECK(MPI_Comm_set_attr(MPI_COMM_SELF, keyval, &value) == MPI_SUCCESS);
    CHECK(MPI_Comm_set_attr(MPI_COMM_SELF, plain, &flag) == MPI_SUCCESS);
    CHECK(MPI_Comm_dup(MPI_COMM_SELF, &duplicate) == MPI_SUCCESS && copied == 1);
    CHECK(MPI_Comm_get_attr(duplicate, keyval, &got, &flag) == MPI_SUCCESS && flag && got == &value);
    CHECK(MPI_Comm_get_attr(duplicate, plain, &got, &flag) == MPI_SUCCESS && flag && got == &flag);
    CHECK(MPI_Comm_free(&duplicate) == MPI_SUCCESS && deleted == 1 && duplicate == MPI_COMM_NULL);
    CHECK(MPI_Comm_delete_attr(MPI_COMM_SELF, keyval) == MPI_SUCCESS && deleted == 2);
    CHECK(MPI_Comm_set_attr(MPI_COMM_SELF, keyval, &failed) == MPI_SUCCESS);
    CHECK(class_of(MPI_Comm_delete_attr(MPI_COMM_SELF, keyval)) == MPI_ERR_ARG);
    CHECK(MPI_Comm_free_keyval(&keyval) == MPI_SUCCESS && keyval == MPI_KEYVAL_INVALID);
    CHECK(class_of(MPI_Comm_free_keyval(&keyval)) == MPI_ERR_KEYVAL);
    CHECK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &got, &flag) == MPI_SUCCESS && flag && *got >= 32767);
    CHECK(class_of(MPI_Comm_set_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value)) == MPI_ERR_KEYVAL);
    CHECK(class_of(MPI_Type_set_attr(MPI_INT, plain, &value)) == MPI_ERR_KEYVAL);
}

static void groups(void) {
    MPI_Group world, none;
    int rank, size, ranges[1][3] = {{0, 2147483647, 1}};
    CHECK(MPI_Comm_group(MPI_COMM_WORLD, &world) == MPI_SUCCESS && MPI_Group_size(world, &size) == MPI_SUCCESS);
    CHECK(MPI_Group_rank(world, &rank) == MPI_SUCCESS && rank >= 0 && rank < size);
    CHECK(MPI_Group_excl(world, 0, NULL, &none) == MPI_SUCCESS && MPI_Group_compare(world, none, &rank) == MPI_SUCCESS);
    CHECK(rank == MPI_IDENT && MPI_Group_free(&none) == MPI_SUCCESS && none == MPI_GROUP_NULL);
    CHECK(MPI_Group_incl(world, 0, NULL, &none) == MPI_SUCCESS && none == MPI_GROUP_EMPTY);
    CHECK(MPI_Group_rank(none, &rank) == MPI_SUCCESS && rank == MPI_UNDEFINED);
    CHECK(class_of(MPI_Group_incl(world, 1, &size, &none)) == MPI_ERR_RANK);
    CHECK(class_of(MPI_Group_incl(world, -1, &size, &none)) == MPI_ERR_COUNT);
    CHECK(class_of(MPI_Group_incl(world, 1, NULL, &none)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Group_range_incl(world, 1, ranges, &none)) == MPI_ERR_RANK);
    CHECK(MPI_Group_free(&world) == MPI_SUCCESS);
}

static void sessions(void) {
    MPI_Session session;
    MPI_Group group;
    char name[MPI_MAX_PSET_NAME_LEN];
    int number, length = sizeof name;
    CHECK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session) == MPI_SUCCESS);
    CHECK(MPI_Session_get_num_psets(session, MPI_INFO_NULL, &number) == MPI_SUCCESS && number == 2);
    CHECK(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 1, &length, name) == MPI_SUCCESS);
    CHECK(!strcmp(name, "mpi://SELF") && length == (int)sizeof "mpi://SELF");
    CHECK(MPI_Group_from_session_pset(session, name, &group) == MPI_SUCCESS);
    CHECK(MPI_Group_size(group, &number) == MPI_SUCCESS && number == 1 && MPI_Group_free(&group) == MPI_SUCCESS);
    CHECK(class_of(MPI_Group_from_session_pset(session, "none", &group)) == MPI_ERR_ARG);
    CHECK(MPI_Session_finalize(&session) == MPI_SUCCESS && session == MPI_SESSION_NULL);
}

/* Buffered sends in a session's communicators use its buffer; one of the communicator's own goes before it. */
static void buffers(void) {
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm, copy, part;
    MPI_Request request;
    static char memory[1000 + MPI_BSEND_OVERHEAD], more[100000];
    char text[500], got[500];
    void *address;
    MPI_Count large;
    int size;
    CHECK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session) == MPI_SUCCESS);
    CHECK(MPI_Group_from_session_pset(session, "mpi://SELF", &group) == MPI_SUCCESS);
    CHECK(!MPI_Comm_create_from_group(group, "buffers", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    CHECK(class_of(MPI_Bsend(text, 10, MPI_CHAR, 0, 1, comm)) == MPI_ERR_BUFFER);
    CHECK(MPI_Session_attach_buffer(session, memory, sizeof memory) == MPI_SUCCESS);
    CHECK(class_of(MPI_Session_attach_buffer(session, more, sizeof more)) == MPI_ERR_BUFFER);
    CHECK(class_of(MPI_Bsend(text, 10, MPI_CHAR, 0, 1, MPI_COMM_SELF)) == MPI_ERR_BUFFER);
    memset(text, 7, sizeof text);
    CHECK(!MPI_Comm_dup(comm, &copy) && !MPI_Comm_split(copy, 0, 0, &part));
    MPI_Comm all[] = {comm, copy, part};
    for (int i = 0; i < 3; i++) {
        CHECK(MPI_Bsend(text, sizeof text, MPI_CHAR, 0, 1, all[i]) == MPI_SUCCESS);
        CHECK(!MPI_Recv(got, sizeof got, MPI_CHAR, 0, 1, all[i], MPI_STATUS_IGNORE) && !memcmp(got, text, sizeof got));
        CHECK(class_of(MPI_Bsend(more, sizeof more, MPI_CHAR, 0, 1, all[i])) == MPI_ERR_BUFFER);
    }
    CHECK(!MPI_Comm_attach_buffer(comm, more, sizeof more));
    CHECK(!MPI_Bsend(more, sizeof more / 2, MPI_CHAR, 0, 1, comm));
    CHECK(!MPI_Recv(more, sizeof more / 2, MPI_CHAR, 0, 1, comm, MPI_STATUS_IGNORE));
    CHECK(!MPI_Comm_detach_buffer(comm, &address, &size) && address == more && size == (int)sizeof more);
    CHECK(MPI_Session_flush_buffer(session) == MPI_SUCCESS);
    CHECK(!MPI_Session_iflush_buffer(session, &request) && !MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(!MPI_Session_detach_buffer_c(session, &address, &large) && address == memory && large == sizeof memory);
    CHECK(!MPI_Session_attach_buffer_c(session, MPI_BUFFER_AUTOMATIC, 0));
    CHECK(!MPI_Bsend(more, sizeof more, MPI_CHAR, 0, 1, part));
    CHECK(!MPI_Recv(more, sizeof more, MPI_CHAR, 0, 1, part, MPI_STATUS_IGNORE));
    CHECK(!MPI_Session_detach_buffer(session, &address, &size) && address == MPI_BUFFER_AUTOMATIC);
    CHECK(class_of(MPI_Session_detach_buffer(MPI_SESSION_NULL, &address, &size)) == MPI_ERR_SESSION);
    CHECK(class_of(MPI_Session_attach_buffer(session, memory, -1)) == MPI_ERR_COUNT);
    CHECK(!MPI_Comm_free(&part) && !MPI_Comm_free(&copy) && !MPI_Comm_free(&comm) && !MPI_Group_free(&group));
    CHECK(MPI_Session_finalize(&session) == MPI_SUCCESS);
}

static void statuses(void) {
    MPI_Status status;
    int number;
    CHECK(MPI_Status_set_source(&status, 3) == MPI_SUCCESS && status.MPI_SOURCE == 3);
    CHECK(MPI_Status_set_tag(&status, 5) == MPI_SUCCESS && MPI_Status_get_tag(&status, &number) == MPI_SUCCESS);
    CHECK(number == 5 && MPI_Status_set_cancelled(&status, 1) == MPI_SUCCESS);
    CHECK(MPI_Test_cancelled(&status, &number) == MPI_SUCCESS && number == 1);
    CHECK(MPI_Status_set_elements(&status, MPI_DOUBLE, 6) == MPI_SUCCESS);
    CHECK(MPI_Get_count(&status, MPI_DOUBLE, &number) == MPI_SUCCESS && number == 6);
}

static int query(void *extra, MPI_Status *status) {
    *(int *)extra += 1;
    MPI_Status_set_elements(status, MPI_INT, 4);
    MPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = 2;
    return MPI_SUCCESS;
}

static int release(void *extra) {
    *(int *)extra += 10;
    return MPI_SUCCESS;
}

static int cancel(void *extra, int complete) {
    *(int *)extra += complete ? 1000 : 100;
    return MPI_SUCCESS;
}

static void generalized(void) {
    MPI_Request request;
    MPI_Status status;
    int calls = 0, flag = 1;
    CHECK(MPI_Grequest_start(query, release, cancel, &calls, &request) == MPI_SUCCESS);
    CHECK(MPI_Test(&request, &flag, &status) == MPI_SUCCESS && !flag && calls == 0);
    CHECK(MPI_Cancel(&request) == MPI_SUCCESS && calls == 100);
    CHECK(MPI_Grequest_complete(request) == MPI_SUCCESS);
    CHECK(class_of(MPI_Grequest_complete(request)) == MPI_ERR_REQUEST);
    CHECK(MPI_Wait(&request, &status) == MPI_SUCCESS && request == MPI_REQUEST_NULL && calls == 111);
    CHECK(status.MPI_SOURCE == 2 && MPI_Get_count(&status, MPI_INT, &flag) == MPI_SUCCESS && flag == 4);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    info();
    attributes();
    groups();
    sessions();
    buffers();
    statuses();
    generalized();
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    /* The attribute that cannot be deleted. */
    CHECK(class_of(MPI_Finalize()) == MPI_ERR_ARG);
    return failed != 0;
}
