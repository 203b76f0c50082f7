/* Prints where a check failed, and counts. */

#include <mpi.h>
#include <stdio.h>
#include <string.h>

static int failed;
#define CHECK(condition) ((condition) ? (void)0 : (void)(failed++, printf("line %d: %s\n", __LINE__, #condition)))

static inline int class_of(int code) {
    int class = -1;
    return MPI_Error_class(code, &class) == MPI_SUCCESS ? class : -1;
}

static inline int says(int code, const char *words) {
    char text[MPI_MAX_ERROR_STRING];
    int length;
    return MPI_Error_string(code, text, &length) == MPI_SUCCESS && (int)strlen(text) == length && strstr(text, words);
}
