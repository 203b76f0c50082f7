/* A request's errors go to the error handler of its communicator, window or file, not to that of MPI_COMM_SELF, which
   ends this program. */

#include "check.h"

static MPI_Comm heard_comm;
static MPI_Win heard_win;
static int heard, comms, wins;

static void hear(MPI_Comm *comm, int *code, ...) {
    heard_comm = *comm;
    heard = class_of(*code);
    comms++;
}

static void hear_win(MPI_Win *win, int *code, ...) {
    heard_win = *win;
    heard = class_of(*code);
    wins++;
}

/* Whether the call returned this class, and its communicator's handler heard of it, once. */
static int comm_heard(int code, int class, MPI_Comm comm) {
    int right = class_of(code) == class && heard == class && comms == 1 && heard_comm == comm;
    if (!right)
        printf("class %d, %d heard, %d times\n", class_of(code), heard, comms);
    comms = heard = 0;
    heard_comm = MPI_COMM_NULL;
    return right;
}

/* A receive of a message that is longer than its buffer. */
static MPI_Request truncated(MPI_Comm comm, int tag) {
    static int from[2], into[64];
    MPI_Request request;
    int rank;
    MPI_Comm_rank(comm, &rank);
    CHECK(MPI_Irecv(into + tag % 64, 1, MPI_INT, rank, tag, comm, &request) == MPI_SUCCESS);
    CHECK(MPI_Send(from, 2, MPI_INT, rank, tag, comm) == MPI_SUCCESS);
    return request;
}

static void one(MPI_Comm comm) {
    MPI_Request request = truncated(comm, 1);
    MPI_Status status;
    int flag, index, code;
    CHECK(comm_heard(MPI_Wait(&request, &status), MPI_ERR_TRUNCATE, comm) && request == MPI_REQUEST_NULL);
    request = truncated(comm, 2);
    do
        code = MPI_Test(&request, &flag, &status);
    while (code == MPI_SUCCESS && !flag);
    CHECK(comm_heard(code, MPI_ERR_TRUNCATE, comm) && flag && request == MPI_REQUEST_NULL);
    request = truncated(comm, 3);
    CHECK(comm_heard(MPI_Waitany(1, &request, &index, &status), MPI_ERR_TRUNCATE, comm) && index == 0);
    request = truncated(comm, 4);
    do
        code = MPI_Testany(1, &request, &index, &flag, &status);
    while (code == MPI_SUCCESS && !flag);
    CHECK(comm_heard(code, MPI_ERR_TRUNCATE, comm) && index == 0 && request == MPI_REQUEST_NULL);
}

static void several(MPI_Comm comm, MPI_Comm other) {
    MPI_Request requests[3];
    MPI_Status statuses[3];
    int flag, count, indices[3], code, rank;
    MPI_Comm_rank(comm, &rank);
    requests[0] = MPI_REQUEST_NULL;
    CHECK(MPI_Isend(&rank, 1, MPI_INT, MPI_PROC_NULL, 0, other, &requests[1]) == MPI_SUCCESS);
    requests[2] = truncated(comm, 5);
    CHECK(comm_heard(MPI_Waitall(3, requests, statuses), MPI_ERR_IN_STATUS, comm));
    CHECK(statuses[1].MPI_ERROR == MPI_SUCCESS && class_of(statuses[2].MPI_ERROR) == MPI_ERR_TRUNCATE);
    /* Of several that failed, the first one's communicator hears. */
    requests[0] = truncated(other, 6);
    requests[1] = truncated(comm, 7);
    CHECK(comm_heard(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE), MPI_ERR_IN_STATUS, other));
    requests[0] = truncated(comm, 8);
    requests[1] = truncated(comm, 9);
    do
        code = MPI_Testall(2, requests, &flag, statuses);
    while (code == MPI_SUCCESS && !flag);
    CHECK(comm_heard(code, MPI_ERR_IN_STATUS, comm) && flag);
    requests[0] = truncated(comm, 10);
    CHECK(comm_heard(MPI_Waitsome(1, requests, &count, indices, statuses), MPI_ERR_IN_STATUS, comm) && count == 1);
    requests[0] = truncated(comm, 11);
    do
        code = MPI_Testsome(1, requests, &count, indices, statuses);
    while (code == MPI_SUCCESS && !count);
    CHECK(comm_heard(code, MPI_ERR_IN_STATUS, comm) && count == 1 && requests[0] == MPI_REQUEST_NULL);
}

static void matched(MPI_Comm comm) {
    int from[2] = {1, 2}, into, rank;
    MPI_Request request;
    MPI_Message message;
    MPI_Status status;
    MPI_Comm_rank(comm, &rank);
    for (int way = 0; way < 4; way++) {
        CHECK(MPI_Isend(from, 2, MPI_INT, rank, 12, comm, &request) == MPI_SUCCESS);
        CHECK(MPI_Mprobe(rank, 12, comm, &message, &status) == MPI_SUCCESS);
        if (way == 2)
            CHECK(comm_heard(MPI_Mrecv(&into, -1, MPI_INT, &message, &status), MPI_ERR_COUNT, comm));
        if (way == 3) {
            MPI_Request none;
            CHECK(comm_heard(MPI_Imrecv(&into, 1, MPI_DATATYPE_NULL, &message, &none), MPI_ERR_TYPE, comm));
        }
        if (way % 2 == 0) {
            CHECK(comm_heard(MPI_Mrecv(&into, 1, MPI_INT, &message, &status), MPI_ERR_TRUNCATE, comm));
        } else {
            MPI_Request receive;
            CHECK(MPI_Imrecv(&into, 1, MPI_INT, &message, &receive) == MPI_SUCCESS);
            CHECK(comm_heard(MPI_Wait(&receive, &status), MPI_ERR_TRUNCATE, comm));
        }
        CHECK(message == MPI_MESSAGE_NULL && MPI_Wait(&request, &status) == MPI_SUCCESS);
    }
}

static void persistent(MPI_Comm comm) {
    int into, rank, partition[] = {3};
    MPI_Request request;
    MPI_Comm_rank(comm, &rank);
    CHECK(MPI_Recv_init(&into, 1, MPI_INT, rank, 13, comm, &request) == MPI_SUCCESS);
    CHECK(comm_heard(MPI_Cancel(&request), MPI_ERR_REQUEST, comm));
    CHECK(MPI_Start(&request) == MPI_SUCCESS);
    CHECK(comm_heard(MPI_Start(&request), MPI_ERR_REQUEST, comm));
    CHECK(comm_heard(MPI_Startall(1, &request), MPI_ERR_REQUEST, comm));
    CHECK(comm_heard(MPI_Pready(0, request), MPI_ERR_REQUEST, comm));
    CHECK(MPI_Cancel(&request) == MPI_SUCCESS && MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    CHECK(MPI_Request_free(&request) == MPI_SUCCESS);
    CHECK(MPI_Psend_init(&into, 1, 1, MPI_INT, MPI_PROC_NULL, 14, comm, MPI_INFO_NULL, &request) == MPI_SUCCESS);
    CHECK(comm_heard(MPI_Pready(0, request), MPI_ERR_REQUEST, comm) && MPI_Start(&request) == MPI_SUCCESS);
    CHECK(comm_heard(MPI_Pready(1, request), MPI_ERR_ARG, comm));
    CHECK(comm_heard(MPI_Pready_range(2, 3, request), MPI_ERR_ARG, comm));
    CHECK(comm_heard(MPI_Pready_list(1, partition, request), MPI_ERR_ARG, comm));
    CHECK(comm_heard(MPI_Parrived(request, 0, &into), MPI_ERR_REQUEST, comm));
    CHECK(MPI_Pready(0, request) == MPI_SUCCESS && MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    CHECK(MPI_Request_free(&request) == MPI_SUCCESS);
}

/* Short sends that are done when they are begun, receives that are not, and their handles when they are gone. */
static void handles(MPI_Comm comm) {
    enum { MANY = 8 };
    int from[MANY], into[MANY], rank, flag, index;
    MPI_Request requests[2 * MANY], gone;
    MPI_Status statuses[2 * MANY];
    MPI_Comm_rank(comm, &rank);
    for (int i = 0; i < MANY; i++) {
        from[i] = 100 + i, into[i] = 0;
        CHECK(MPI_Irecv(&into[i], 1, MPI_INT, rank, 16 + i, comm, &requests[MANY - 1 - i]) == MPI_SUCCESS);
    }
    for (int i = 0; i < MANY; i++) {
        CHECK(MPI_Isend(&from[i], 1, MPI_INT, rank, 16 + i, comm, &requests[MANY + i]) == MPI_SUCCESS);
    }
    gone = requests[0];
    CHECK(MPI_Waitall(2 * MANY, requests, statuses) == MPI_SUCCESS);
    for (int i = 0; i < MANY; i++) {
        CHECK(into[i] == 100 + i && statuses[MANY - 1 - i].MPI_TAG == 16 + i && statuses[i].MPI_ERROR == MPI_SUCCESS);
        CHECK(requests[i] == MPI_REQUEST_NULL && requests[MANY + i] == MPI_REQUEST_NULL);
    }
    CHECK(class_of(MPI_Wait(&gone, MPI_STATUS_IGNORE)) == MPI_ERR_REQUEST);
    CHECK(class_of(MPI_Waitall(1, &gone, statuses)) == MPI_ERR_REQUEST);
    CHECK(class_of(MPI_Request_free(&gone)) == MPI_ERR_REQUEST && class_of(MPI_Start(&gone)) == MPI_ERR_REQUEST);
    comms = heard = 0;
    for (int way = 0; way < 4; way++) {
        CHECK(MPI_Irecv(into, 1, MPI_INT, rank, 30, comm, &requests[1]) == MPI_SUCCESS);
        CHECK(MPI_Isend(from, 1, MPI_INT, rank, 30, comm, &requests[0]) == MPI_SUCCESS);
        CHECK(MPI_Request_get_status(requests[0], &flag, statuses) == MPI_SUCCESS && flag);
        if (way == 0) {
            CHECK(MPI_Cancel(&requests[0]) == MPI_SUCCESS && MPI_Wait(&requests[0], statuses) == MPI_SUCCESS);
            CHECK(MPI_Test_cancelled(statuses, &flag) == MPI_SUCCESS && !flag);
        } else if (way == 1) {
            CHECK(MPI_Request_free(&requests[0]) == MPI_SUCCESS);
        } else if (way == 2) {
            CHECK(MPI_Waitany(1, requests, &index, statuses) == MPI_SUCCESS && index == 0);
        } else {
            CHECK(MPI_Test(&requests[0], &flag, statuses) == MPI_SUCCESS && flag);
        }
        CHECK(requests[0] == MPI_REQUEST_NULL && MPI_Wait(&requests[1], statuses) == MPI_SUCCESS);
        CHECK(statuses[0].MPI_TAG == 30 && requests[1] == MPI_REQUEST_NULL);
    }
    CHECK(MPI_Irecv(into, 1, MPI_INT, rank, 31, comm, &requests[0]) == MPI_SUCCESS);
    CHECK(MPI_Irecv(into, 1, MPI_INT, rank, 32, comm, &requests[1]) == MPI_SUCCESS);
    CHECK(MPI_Cancel(&requests[0]) == MPI_SUCCESS && MPI_Wait(&requests[0], statuses) == MPI_SUCCESS);
    CHECK(MPI_Test_cancelled(statuses, &flag) == MPI_SUCCESS && flag);
    gone = requests[1];
    CHECK(MPI_Request_free(&requests[1]) == MPI_SUCCESS && class_of(MPI_Wait(&gone, statuses)) == MPI_ERR_REQUEST);
    CHECK(MPI_Send(from, 1, MPI_INT, rank, 32, comm) == MPI_SUCCESS); /* what is freed goes on to its end */
    comms = heard = 0;
}

/* The handler outlives the handle of the communicator: the next communicator may have the same handle. */
static void freed(MPI_Comm comm) {
    MPI_Comm first, second;
    MPI_Request request;
    CHECK(MPI_Comm_dup(comm, &first) == MPI_SUCCESS);
    request = truncated(first, 15);
    CHECK(MPI_Comm_free(&first) == MPI_SUCCESS && MPI_Comm_dup(comm, &second) == MPI_SUCCESS);
    CHECK(MPI_Comm_set_errhandler(second, MPI_ERRORS_ARE_FATAL) == MPI_SUCCESS);
    CHECK(comm_heard(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE, MPI_COMM_NULL));
    CHECK(MPI_Comm_free(&second) == MPI_SUCCESS);
}

static void window(MPI_Comm comm) {
    int memory[2] = {0, 0}, from[4] = {1, 2, 3, 4}, rank, code;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Errhandler handler;
    MPI_Win win;
    MPI_Comm_rank(comm, &rank);
    CHECK(MPI_Win_create(memory, sizeof memory, sizeof(int), MPI_INFO_NULL, comm, &win) == MPI_SUCCESS);
    CHECK(MPI_Win_create_errhandler(hear_win, &handler) == MPI_SUCCESS);
    CHECK(MPI_Win_set_errhandler(win, handler) == MPI_SUCCESS && MPI_Errhandler_free(&handler) == MPI_SUCCESS);
    CHECK(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win) == MPI_SUCCESS);
    code = MPI_Rget(from, 4, MPI_INT, rank, 1, 4, MPI_INT, win, &request);
    if (code == MPI_SUCCESS)
        code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(class_of(code) == MPI_ERR_RMA_RANGE && heard == MPI_ERR_RMA_RANGE && wins == 1 && heard_win == win);
    CHECK(MPI_Rput(from, 1, MPI_INT, rank, 1, 1, MPI_INT, win, &request) == MPI_SUCCESS);
    wins = 0;
    CHECK(class_of(MPI_Start(&request)) == MPI_ERR_REQUEST && wins == 1 && heard_win == win);
    CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    CHECK(MPI_Win_unlock(rank, win) == MPI_SUCCESS && memory[1] == 1 && MPI_Win_free(&win) == MPI_SUCCESS);
}

static void file(void) {
    MPI_Request request;
    MPI_File file;
    char name[32];
    int into, rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    snprintf(name, sizeof name, "requests.%d", rank); /* each rank's own, because each deletes it */
    CHECK(MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                        MPI_INFO_NULL, &file) == MPI_SUCCESS);
    CHECK(MPI_File_iread_at(file, 0, &into, 1, MPI_INT, &request) == MPI_SUCCESS);
    CHECK(class_of(MPI_Start(&request)) == MPI_ERR_REQUEST); /* a file's errors are returned unless it has a handler */
    CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS && MPI_File_close(&file) == MPI_SUCCESS);
}

static int query(void *extra, MPI_Status *status) {
    MPI_Status_set_cancelled(status, 0);
    MPI_Status_set_elements(status, MPI_BYTE, 0);
    return extra ? MPI_ERR_OTHER : MPI_SUCCESS;
}

/* A generalized request belongs to no object: its errors go to MPI_COMM_SELF's handler. */
static void generalized(MPI_Comm comm) {
    MPI_Request requests[2];
    MPI_Status statuses[2];
    MPI_Errhandler handler;
    CHECK(MPI_Comm_create_errhandler(hear, &handler) == MPI_SUCCESS);
    CHECK(MPI_Comm_set_errhandler(MPI_COMM_SELF, handler) == MPI_SUCCESS);
    CHECK(MPI_Grequest_start(query, NULL, NULL, &failed, &requests[0]) == MPI_SUCCESS);
    CHECK(MPI_Grequest_complete(requests[0]) == MPI_SUCCESS);
    CHECK(comm_heard(MPI_Wait(&requests[0], MPI_STATUS_IGNORE), MPI_ERR_OTHER, MPI_COMM_SELF));
    CHECK(MPI_Grequest_start(query, NULL, NULL, &failed, &requests[0]) == MPI_SUCCESS);
    CHECK(MPI_Grequest_complete(requests[0]) == MPI_SUCCESS);
    requests[1] = truncated(comm, 16);
    CHECK(comm_heard(MPI_Waitall(2, requests, statuses), MPI_ERR_IN_STATUS, MPI_COMM_SELF));
    CHECK(class_of(statuses[0].MPI_ERROR) == MPI_ERR_OTHER && class_of(statuses[1].MPI_ERROR) == MPI_ERR_TRUNCATE);
    CHECK(MPI_Errhandler_free(&handler) == MPI_SUCCESS);
    CHECK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL) == MPI_SUCCESS);
}

int main(void) {
    MPI_Errhandler handler;
    MPI_Comm comm;
    MPI_Init(NULL, NULL);
    CHECK(MPI_Comm_create_errhandler(hear, &handler) == MPI_SUCCESS);
    CHECK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler) == MPI_SUCCESS);
    CHECK(MPI_Comm_dup(MPI_COMM_WORLD, &comm) == MPI_SUCCESS && MPI_Errhandler_free(&handler) == MPI_SUCCESS);
    one(MPI_COMM_WORLD);
    one(comm);
    several(MPI_COMM_WORLD, comm);
    matched(comm);
    persistent(comm);
    handles(comm);
    freed(comm);
    window(comm);
    file();
    generalized(comm);
    CHECK(MPI_Comm_free(&comm) == MPI_SUCCESS);
    MPI_Finalize();
    return failed;
}
