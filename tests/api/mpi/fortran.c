/* What C sees of an attribute that Fortran has set: the address of a number. And the other way round. */

#include <mpi.h>
#include <stddef.h>

MPI_Aint seen_in_c(MPI_Fint comm, int keyval) {
    MPI_Aint *value;
    int flag = 0;
    MPI_Comm_get_attr(MPI_Comm_f2c(comm), keyval, &value, &flag);
    return flag ? *value : 0;
}

static int pass_through(MPI_Comm comm, int keyval, void *extra, void *value, void *copy, int *flag) {
    (void)comm, (void)keyval, (void)extra;
    *(void **)copy = value;
    *flag = 1;
    return MPI_SUCCESS;
}

/* A key of C, whose values are copied as they are. */
int key_of_c(void) {
    int keyval;
    MPI_Comm_create_keyval(pass_through, MPI_COMM_NULL_DELETE_FN, &keyval, NULL);
    return keyval;
}

/* Sets an address under a key of Fortran, whose values are copied as 2 * value + 1; whether a copy has that address. */
int copies_an_address(MPI_Fint comm, int keyval) {
    MPI_Comm copy;
    char *value = (char *)20, *got = NULL;
    int flag = 0;
    MPI_Comm_set_attr(MPI_Comm_f2c(comm), keyval, value);
    MPI_Comm_dup(MPI_Comm_f2c(comm), &copy);
    MPI_Comm_get_attr(copy, keyval, &got, &flag);
    MPI_Comm_free(&copy);
    MPI_Comm_delete_attr(MPI_Comm_f2c(comm), keyval);
    return flag && got == (char *)41;
}
