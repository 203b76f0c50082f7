/* A program in C that uses a grid: a job with four processes, its events and logs, files, and a tuple space.
 *
 *     cc -o squares squares.c phalanx.c -lcurl -lcjson
 *     export PHALANX_TOKEN=$(phalanx token --for 1h)
 *     ./squares https://10.0.0.5:8443 $(phalanx token --authority) /srv/data/c
 */

#include "phalanx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static phalanx *grid;

/* What a function returned; the program ends if it has failed. */
static void *checked(void *returned) {
    if (returned != NULL) return returned;
    fprintf(stderr, "status %ld: %s\n", phalanx_status(grid), phalanx_error(grid));
    exit(1);
}

static void done(int returned) { checked(returned ? NULL : grid); }

static void hear(const cJSON *job, void *context) {
    printf("job %lld is %s\n", *(long long *)context, cJSON_GetStringValue(cJSON_GetObjectItem(job, "state")));
}

int main(int count, char **words) {
    if (count != 4) return fprintf(stderr, "squares URL AUTHORITY FOLDER\n"), 2;
    grid = checked(phalanx_open(words[1], words[2], getenv("PHALANX_TOKEN")));
    cJSON *me = checked(phalanx_ask(grid, "GET", "/me", NULL));
    printf("this is the grid as %s sees it\n", cJSON_GetStringValue(cJSON_GetObjectItem(me, "user")));
    cJSON_Delete(me);

    /* A job: four processes, each with its own index. */
    cJSON *job = checked(cJSON_Parse("{\"command\": [\"sh\", \"-c\","
                                     " \"echo $((PHALANX_INDEX * PHALANX_INDEX)) > square; echo squared\"],"
                                     " \"first\": 1, \"count\": 4, \"outputs\": [\"square\"]}"));
    long long number = phalanx_submit(grid, job);
    done(number < 0);
    cJSON_Delete(job);
    cJSON_Delete(checked(phalanx_wait(grid, number, hear, &number)));
    char *log = checked(phalanx_log(grid, number, 1, "stdout", NULL));
    printf("its first process has written: %s", log);
    free(log);

    /* Each output goes into a tuple space, and into a file of the hub's machine. */
    char squares[256] = "", path[1024];
    for (int index = 1; index <= 4; index++) {
        char *square = checked(phalanx_output(grid, number, index, "square", NULL));
        cJSON *tuple = cJSON_CreateArray();
        cJSON_AddItemToArray(tuple, cJSON_CreateString("square"));
        cJSON_AddItemToArray(tuple, cJSON_CreateNumber(atoi(square)));
        done(phalanx_out(grid, "open.c", tuple));
        strncat(squares, square, sizeof squares - strlen(squares) - 1);
        free(square);
    }
    snprintf(path, sizeof path, "%s/squares.txt", words[3]);
    done(phalanx_write(grid, path, squares, strlen(squares)));
    char *file = checked(phalanx_read(grid, path, NULL));
    fputs(file, stdout);
    free(file);

    /* Taken for ten seconds: if this program died here, the tuple would go back. */
    int sum = 0;
    for (int taken = 0; taken < 4; taken++) {
        cJSON *pattern = cJSON_CreateArray();
        cJSON_AddItemToArray(pattern, cJSON_CreateString("square"));
        cJSON_AddItemToArray(pattern, phalanx_any("integer"));
        cJSON *found = checked(phalanx_in(grid, "open.c", pattern, 5, 10));
        cJSON *square = checked(cJSON_GetArrayItem(cJSON_GetObjectItem(found, "tuple"), 1));
        sum += square->valueint;
        done(phalanx_keep(grid, found));
        cJSON_Delete(found);
    }
    printf("the sum of the squares from 1 to 4 is %d\n", sum);
    phalanx_close(grid);
    return 0;
}
