/* Parents and children: started, told apart, spoken to, and let go. Checks everything; prints nothing. */

#include "check.h"

static void be_child(MPI_Comm parent) {
    int rank, size, parents, *app, flag, sum, token;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_remote_size(parent, &parents);
    CHECK(size == 3 && parents >= 1);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &app, &flag);
    CHECK(flag && *app == (rank == 0 ? 0 : 1));
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(sum == 3);
    MPI_Recv(&token, 1, MPI_INT, 0, 5, parent, MPI_STATUS_IGNORE);
    CHECK(token == 40 + rank);

    static char large[1 << 20];
    MPI_Bcast(large, sizeof large, MPI_CHAR, 0, parent);
    CHECK(large[0] == 'x' && large[sizeof large - 1] == 'x');

    MPI_Comm all;
    MPI_Intercomm_merge(parent, 1, &all);
    MPI_Comm_rank(all, &sum);
    CHECK(sum == parents + rank);
    MPI_Allreduce(MPI_IN_PLACE, &token, 1, MPI_INT, MPI_SUM, all);
    CHECK(token == 40 + 41 + 42 + parents);
    MPI_Comm_disconnect(&all);
    MPI_Comm_disconnect(&parent);
    MPI_Comm_get_parent(&parent);
    CHECK(parent == MPI_COMM_NULL);
}

static void be_parent(char *program) {
    int rank, size, codes[3] = {1, 1, 1}, *universe, flag;
    MPI_Comm children, all;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &universe, &flag);
    CHECK(flag && *universe >= size);

    int last = size - 1, counts[] = {1, 2};
    char *commands[] = {program, program}, *words[] = {"a word", "", NULL}, **arguments[] = {words, words};
    MPI_Info infos[] = {MPI_INFO_NULL, MPI_INFO_NULL};
    if (rank == last)
        MPI_Comm_spawn_multiple(2, commands, arguments, counts, infos, last, MPI_COMM_WORLD, &children, codes);
    else
        MPI_Comm_spawn_multiple(-1, NULL, NULL, NULL, NULL, last, MPI_COMM_WORLD, &children, codes);
    for (int child = 0; child < 3; child++)
        CHECK(codes[child] == MPI_SUCCESS);
    for (int child = 0; rank == 0 && child < 3; child++) {
        int token = 40 + child;
        MPI_Send(&token, 1, MPI_INT, child, 5, children);
    }
    static char large[1 << 20];
    memset(large, 'x', sizeof large);
    MPI_Bcast(large, sizeof large, MPI_CHAR, rank == 0 ? MPI_ROOT : MPI_PROC_NULL, children);
    MPI_Intercomm_merge(children, 0, &all);
    int one = 1, sum;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, all);
    CHECK(sum == 40 + 41 + 42 + size);
    MPI_Comm_disconnect(&all);
    MPI_Comm_disconnect(&children);
    CHECK(children == MPI_COMM_NULL);
}

static void fail(char *missing) {
    int codes[2] = {MPI_SUCCESS, MPI_SUCCESS};
    MPI_Comm none = MPI_COMM_WORLD;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int code = MPI_Comm_spawn(missing, MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &none, codes);
    CHECK(class_of(code) == MPI_ERR_SPAWN && none == MPI_COMM_NULL);
    CHECK(class_of(codes[0]) == MPI_ERR_SPAWN || class_of(codes[1]) == MPI_ERR_SPAWN);
    code = MPI_Comm_spawn("true", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &none, MPI_ERRCODES_IGNORE);
    CHECK(class_of(code) == MPI_ERR_SPAWN);
    code = MPI_Comm_spawn("true", MPI_ARGV_NULL, -1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &none, MPI_ERRCODES_IGNORE);
    CHECK(class_of(code) == MPI_ERR_COUNT);
    code = MPI_Comm_spawn("true", MPI_ARGV_NULL, 1 << 30, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &none, MPI_ERRCODES_IGNORE);
    CHECK(class_of(code) == MPI_ERR_SPAWN);
    code = MPI_Comm_spawn("true", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 99, MPI_COMM_WORLD, &none, MPI_ERRCODES_IGNORE);
    CHECK(class_of(code) == MPI_ERR_ROOT);
    code = MPI_Comm_connect("phalanx-port-of-nobody", MPI_INFO_NULL, 0, MPI_COMM_WORLD, &none);
    CHECK(class_of(code) == MPI_ERR_PORT && none == MPI_COMM_NULL);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    char port[MPI_MAX_PORT_NAME];
    CHECK(class_of(MPI_Lookup_name("nothing", MPI_INFO_NULL, port)) == MPI_ERR_NAME);
    CHECK(class_of(MPI_Unpublish_name("nothing", MPI_INFO_NULL, "no port")) == MPI_ERR_SERVICE);
    CHECK(class_of(MPI_Close_port("no port")) == MPI_ERR_PORT);
}

int main(int count, char **words) {
    MPI_Comm parent;
    MPI_Init(&count, &words);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        CHECK(count == 3 && strcmp(words[1], "a word") == 0 && words[2][0] == '\0');
        be_child(parent);
    } else {
        be_parent(words[0]);
        fail("/no/such/program");
    }
    MPI_Finalize();
    return failed;
}
