/* What a program may do before, while and after MPI is used, and how errors are told. */

#include "check.h"

static int handled, handled_code;

static void handler(MPI_Comm *comm, int *code, ...) {
    handled = *comm == MPI_COMM_SELF;
    handled_code = *code;
}

static void before(void) {
    int flag = 7, version, length;
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    CHECK(MPI_Initialized(&flag) == MPI_SUCCESS && !flag && MPI_Finalized(&flag) == MPI_SUCCESS && !flag);
    CHECK(MPI_Get_version(&version, &flag) == MPI_SUCCESS && version == MPI_VERSION && flag == MPI_SUBVERSION);
    CHECK(MPI_Abi_get_version(&version, &flag) == MPI_SUCCESS && version == MPI_ABI_VERSION);
    CHECK(MPI_Get_library_version(text, &length) == MPI_SUCCESS && strstr(text, "standard ABI"));
    /* Errors can be asked for before there is anything else; calls that need more are told to wait. */
    CHECK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN) == MPI_SUCCESS);
    MPI_Group group;
    int code = MPI_Group_union(MPI_GROUP_EMPTY, MPI_GROUP_EMPTY, &group);
    CHECK(class_of(code) == MPI_ERR_OTHER && says(code, "MPI_Group_union: MPI is not initialized"));
}

static void errors(void) {
    int code, added, more, flag;
    CHECK(says(MPI_SUCCESS, "no error") && says(MPI_ERR_RANK, "MPI_ERR_RANK") && says(MPI_ERR_ABI, "MPI_ERR_ABI"));
    CHECK(class_of(MPI_Error_class(-5, &code)) == MPI_ERR_ARG);
    CHECK(MPI_Add_error_class(&added) == MPI_SUCCESS && added > MPI_ERR_LASTCODE);
    CHECK(MPI_Add_error_code(added, &more) == MPI_SUCCESS && class_of(more) == added);
    CHECK(MPI_Add_error_string(more, "mine") == MPI_SUCCESS && says(more, "mine"));
    int *last;
    CHECK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &last, &flag) == MPI_SUCCESS && flag && *last >= more);
    CHECK(class_of(MPI_Remove_error_class(added)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Remove_error_code(more)) == MPI_ERR_ARG && MPI_Remove_error_string(more) == MPI_SUCCESS);
    CHECK(MPI_Remove_error_code(more) == MPI_SUCCESS && MPI_Remove_error_class(added) == MPI_SUCCESS);

    MPI_Errhandler own, got;
    CHECK(MPI_Comm_create_errhandler(handler, &own) == MPI_SUCCESS);
    CHECK(MPI_Comm_set_errhandler(MPI_COMM_SELF, own) == MPI_SUCCESS);
    code = MPI_Group_size(MPI_GROUP_NULL, &flag);
    CHECK(handled && handled_code == code && class_of(code) == MPI_ERR_GROUP && says(code, "MPI_Group_size: group is"));
    CHECK(MPI_Comm_call_errhandler(MPI_COMM_SELF, MPI_ERR_TAG) == MPI_SUCCESS && handled_code == MPI_ERR_TAG);
    CHECK(MPI_Errhandler_free(&own) == MPI_SUCCESS && own == MPI_ERRHANDLER_NULL);
    CHECK(MPI_Comm_get_errhandler(MPI_COMM_SELF, &got) == MPI_SUCCESS && MPI_Errhandler_free(&got) == MPI_SUCCESS);
    CHECK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN) == MPI_SUCCESS);
    CHECK(class_of(MPI_Info_get_nkeys(MPI_INFO_NULL, NULL)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Comm_set_errhandler(MPI_COMM_SELF, (MPI_Errhandler)MPI_COMM_WORLD)) == MPI_ERR_ERRHANDLER);
}

static void memory(void) {
    double *numbers, *place;
    CHECK(MPI_Alloc_mem(1000 * sizeof(double), MPI_INFO_NULL, &numbers) == MPI_SUCCESS);
    numbers[999] = 1;
    CHECK(class_of(MPI_Free_mem(numbers + 1)) == MPI_ERR_BASE && MPI_Free_mem(numbers) == MPI_SUCCESS);
    CHECK(class_of(MPI_Alloc_mem(-1, MPI_INFO_NULL, &place)) == MPI_ERR_ARG);
    CHECK(MPI_Aint_diff(MPI_Aint_add((MPI_Aint)&failed, 16), (MPI_Aint)&failed) == 16);
    int dims[2] = {0, 0};
    CHECK(MPI_Dims_create(6, 2, dims) == MPI_SUCCESS && dims[0] == 3 && dims[1] == 2);
    CHECK(class_of(MPI_Dims_create(6, 2, (int[]){-1, 0})) == MPI_ERR_DIMS);
    double begin = MPI_Wtime();
    CHECK(begin > 0 && MPI_Wtime() >= begin && MPI_Wtick() > 0 && MPI_Wtick() < 1e-3);
    CHECK(PMPI_Wtime() >= begin && MPI_Pcontrol(1) == MPI_SUCCESS);
    CHECK(MPI_Comm_fromint(MPI_Comm_toint(MPI_COMM_SELF)) == MPI_COMM_SELF && MPI_Comm_toint(MPI_COMM_SELF) == 0x102);
}

static void tools(void) {
    int provided, number = 7;
    CHECK(MPI_T_cvar_get_num(&number) == MPI_T_ERR_NOT_INITIALIZED);
    CHECK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) == MPI_SUCCESS);
    CHECK(MPI_T_cvar_get_num(&number) == MPI_SUCCESS && number == 0);
    CHECK(MPI_T_pvar_get_index("none", MPI_T_PVAR_CLASS_TIMER, &number) == MPI_T_ERR_INVALID_NAME);
    CHECK(MPI_T_category_get_pvars(0, 0, NULL) == MPI_T_ERR_INVALID_INDEX);
    CHECK(says(MPI_T_ERR_INVALID_INDEX, "MPI_T_ERR_INVALID_INDEX"));
    CHECK(MPI_T_finalize() == MPI_SUCCESS && MPI_T_finalize() == MPI_T_ERR_NOT_INITIALIZED);
}

int main(int argc, char **argv) {
    int flag = 0, provided;
    before();
    tools();
    CHECK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided) == MPI_SUCCESS);
    CHECK(provided == MPI_THREAD_MULTIPLE && MPI_Is_thread_main(&flag) == MPI_SUCCESS && flag);
    CHECK(class_of(MPI_Init(&argc, &argv)) == MPI_ERR_OTHER);
    errors();
    memory();
    CHECK(MPI_Finalize() == MPI_SUCCESS && MPI_Finalized(&flag) == MPI_SUCCESS && flag);
    CHECK(says(MPI_Group_size(MPI_GROUP_EMPTY, &flag), "MPI is finalized"));
    return failed != 0;
}
