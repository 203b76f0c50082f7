/* A grid for programs in C, over HTTPS and JSON: jobs, logs, files and tuple spaces. It needs libcurl and cJSON.
 *
 *     cc -o squares squares.c phalanx.c -lcurl -lcjson        (Debian: libcurl4-openssl-dev libcjson-dev)
 *
 * The interface is described by openapi.json, which the hub serves at /phalanx/v1/openapi.json. `phalanx_ask` reaches all of
 * it; the other functions are those that most programs need.
 *
 * A `phalanx` is for one thread at a time. A program with several threads calls curl_global_init before it starts them. After a failure, `phalanx_error` has its words. Whatever a function returns
 * belongs to the caller: `cJSON_Delete` for a `cJSON *`, `free` for a `char *`.
 */
#ifndef PHALANX_H
#define PHALANX_H

#include <cjson/cJSON.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A grid, as one of its users sees it. */
typedef struct phalanx phalanx;

/* The grid whose hub is at `url`, as https://10.0.0.5:8443. `authority`: the file with the certificate by which the hub is
 * known (phalanx token --authority). `token`: whose requests they are (phalanx token). NULL: there is no memory. */
phalanx *phalanx_open(const char *url, const char *authority, const char *token);
void phalanx_close(phalanx *grid);

/* The words of the last failure, and the status of HTTP of the last answer (0: there was none). */
const char *phalanx_error(const phalanx *grid);
long phalanx_status(const phalanx *grid);

/* Asks with JSON, or without (`body` NULL), and returns the JSON of the answer. `path` begins behind /phalanx/v1, with its
 * parts escaped. NULL: failure. */
cJSON *phalanx_ask(phalanx *grid, const char *method, const char *path, const cJSON *body);

/* Submits a job; returns its number, or -1. With a "key", the request may be repeated. */
long long phalanx_submit(phalanx *grid, const cJSON *job);

/* Follows a job to its end. `listener` (may be NULL) hears of each change. Returns the job as it has ended, or NULL. */
typedef void phalanx_listener(const cJSON *job, void *context);
cJSON *phalanx_wait(phalanx *grid, long long job, phalanx_listener *listener, void *context);

/* All that a process has written so far to "stdout" or "stderr", and an output of a process that has ended. A zero byte
 * follows the bytes; `length` may be NULL. NULL: failure. */
char *phalanx_log(phalanx *grid, long long job, long index, const char *stream, size_t *length);
char *phalanx_output(phalanx *grid, long long job, long index, const char *name, size_t *length);

/* Reads or writes a file of the hub's machine, by its absolute path. A file appears as a whole or not at all.
 * `phalanx_write` returns 0, or -1. */
char *phalanx_read(phalanx *grid, const char *path, size_t *length);
int phalanx_write(phalanx *grid, const char *path, const void *bytes, size_t length);

/* Puts a tuple, an array of JSON that now belongs to the function. Returns 0, or -1.
 * cJSON writes 7.0 as 7, which is a whole number in a space: `phalanx_float` makes a float of it. */
int phalanx_out(phalanx *grid, const char *space, cJSON *tuple);
cJSON *phalanx_float(double value);

/* Takes a tuple that matches, or waits `timeout` seconds for it (60 at most). `pattern` now belongs to the function; in it,
 * `phalanx_any("integer")` stands for all values of a type. Returns {"tuple": [...], "taken": "..."}, whose tuple is null if
 * none came. NULL: failure.
 * `lease`: seconds after which the tuple goes back unless `phalanx_keep` was called with its name in "taken". So a program
 * that dies loses no tuple. 0: the tuple is the caller's at once. */
cJSON *phalanx_in(phalanx *grid, const char *space, cJSON *pattern, double timeout, double lease);
cJSON *phalanx_any(const char *type);
int phalanx_keep(phalanx *grid, const cJSON *found);

#ifdef __cplusplus
}
#endif

#endif
