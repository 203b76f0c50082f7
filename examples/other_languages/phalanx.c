/* The functions of phalanx.h, by libcurl and cJSON. */

#include "phalanx.h"

#include <curl/curl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX "/phalanx/v1"
/* Seconds without a byte after which an answer is given up. Waits of spaces take 60 s at most. */
#define SILENCE 90L

struct phalanx {
    CURL *curl;
    char *url, *authority, *header;
    long status;
    char error[1024];
};

/* Bytes that grow, with a zero byte behind them. */
typedef struct {
    char *bytes;
    size_t length;
} buffer;

static int append(buffer *to, const char *bytes, size_t length) {
    char *grown = realloc(to->bytes, to->length + length + 1);
    if (grown == NULL) return -1;
    memcpy(grown + to->length, bytes, length);
    to->bytes = grown;
    to->length += length;
    grown[to->length] = '\0';
    return 0;
}

static char *text(const char *format, ...) {
    va_list words, again;
    va_start(words, format);
    va_copy(again, words);
    size_t length = (size_t)vsnprintf(NULL, 0, format, words) + 1;
    char *made = malloc(length);
    if (made != NULL) vsnprintf(made, length, format, again);
    va_end(again);
    va_end(words);
    return made;
}

phalanx *phalanx_open(const char *url, const char *authority, const char *token) {
    phalanx *grid = calloc(1, sizeof *grid);
    if (grid == NULL) return NULL;
    grid->curl = curl_easy_init();
    grid->url = text("%s" PREFIX, url);
    grid->authority = text("%s", authority);
    grid->header = text("Authorization: Bearer %s", token);
    if (grid->curl && grid->url && grid->authority && grid->header) return grid;
    phalanx_close(grid);
    return NULL;
}

void phalanx_close(phalanx *grid) {
    if (grid == NULL) return;
    if (grid->curl) curl_easy_cleanup(grid->curl);
    free(grid->url);
    free(grid->authority);
    free(grid->header);
    free(grid);
}

const char *phalanx_error(const phalanx *grid) { return grid->error; }

long phalanx_status(const phalanx *grid) { return grid->status; }

/* Notes a failure: the "detail" of a problem of RFC 9457, or else the words. */
static void fail(phalanx *grid, const char *words, const char *problem) {
    cJSON *read = problem ? cJSON_Parse(problem) : NULL;
    const char *detail = cJSON_GetStringValue(cJSON_GetObjectItem(read, "detail"));
    snprintf(grid->error, sizeof grid->error, "%s", detail ? detail : words);
    cJSON_Delete(read);
}

/* An answer as it comes: lines with events go to the listener, all other bytes to the buffer. */
typedef struct {
    phalanx *grid;
    buffer body;
    phalanx_listener *listener;
    void *context;
    cJSON *last;
} answer;

static size_t received(char *bytes, size_t size, size_t count, void *to) {
    answer *into = to;
    if (append(&into->body, bytes, size * count)) return 0;
    curl_easy_getinfo(into->grid->curl, CURLINFO_RESPONSE_CODE, &into->grid->status);
    if (into->listener == NULL || into->grid->status != 200) return size * count;
    char *line = into->body.bytes, *end;
    for (; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        *end = '\0';
        cJSON *event = strncmp(line, "data: ", 6) ? NULL : cJSON_Parse(line + 6);
        if (event == NULL) continue;
        into->listener(event, into->context);
        cJSON_Delete(into->last);
        into->last = event;
    }
    into->body.length -= (size_t)(line - into->body.bytes);
    memmove(into->body.bytes, line, into->body.length + 1);
    return size * count;
}

/* Asks for a path. Returns 0 if the status says that it was done. */
static int perform(phalanx *grid, const char *method, const char *path, const char *type, const buffer *sent, answer *got) {
    char *url = text("%s%s", grid->url, path);
    struct curl_slist *first = curl_slist_append(NULL, grid->header);
    struct curl_slist *headers = first ? curl_slist_append(first, type) : NULL;
    CURLcode done = CURLE_OUT_OF_MEMORY;
    *grid->error = '\0';
    grid->status = 0;
    got->grid = grid;
    if (url && headers) {
        curl_easy_reset(grid->curl); /* the connection stays open */
        curl_easy_setopt(grid->curl, CURLOPT_URL, url);
        curl_easy_setopt(grid->curl, CURLOPT_CAINFO, grid->authority);
        curl_easy_setopt(grid->curl, CURLOPT_HTTPHEADER, headers);
        curl_easy_setopt(grid->curl, CURLOPT_CUSTOMREQUEST, method);
        curl_easy_setopt(grid->curl, CURLOPT_NOSIGNAL, 1L);
        curl_easy_setopt(grid->curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
        curl_easy_setopt(grid->curl, CURLOPT_LOW_SPEED_TIME, SILENCE);
        curl_easy_setopt(grid->curl, CURLOPT_WRITEFUNCTION, received);
        curl_easy_setopt(grid->curl, CURLOPT_WRITEDATA, got);
        if (sent != NULL) {
            curl_easy_setopt(grid->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)sent->length);
            curl_easy_setopt(grid->curl, CURLOPT_POSTFIELDS, sent->bytes);
        }
        done = curl_easy_perform(grid->curl);
        curl_easy_getinfo(grid->curl, CURLINFO_RESPONSE_CODE, &grid->status);
    }
    curl_slist_free_all(headers ? headers : first);
    free(url);
    if (done != CURLE_OK) {
        fail(grid, curl_easy_strerror(done), NULL);
    } else if (grid->status < 200 || grid->status >= 300) {
        fail(grid, "the hub has refused the request", got->body.bytes);
    } else {
        return 0;
    }
    free(got->body.bytes);
    cJSON_Delete(got->last);
    *got = (answer){0};
    return -1;
}

cJSON *phalanx_ask(phalanx *grid, const char *method, const char *path, const cJSON *body) {
    char *written = body ? cJSON_PrintUnformatted(body) : NULL;
    buffer sent = {written ? written : "", written ? strlen(written) : 0};
    answer got = {0};
    int failed = perform(grid, method, path, "Content-Type: application/json", strcmp(method, "GET") ? &sent : NULL, &got);
    cJSON *read = failed || got.body.bytes == NULL ? NULL : cJSON_Parse(got.body.bytes);
    if (!failed && read == NULL) fail(grid, "the answer is no JSON", NULL);
    free(got.body.bytes);
    cJSON_free(written);
    return read;
}

long long phalanx_submit(phalanx *grid, const cJSON *job) {
    cJSON *made = phalanx_ask(grid, "POST", "/jobs", job);
    const cJSON *id = cJSON_GetObjectItem(made, "id");
    long long number = cJSON_IsNumber(id) ? (long long)id->valuedouble : -1;
    cJSON_Delete(made);
    return number;
}

static void ignore(const cJSON *job, void *context) { (void)job, (void)context; }

cJSON *phalanx_wait(phalanx *grid, long long job, phalanx_listener *listener, void *context) {
    static const char *const OVER[] = {"COMPLETE", "EXECUTOR_ERROR", "SYSTEM_ERROR", "CANCELED"};
    char path[64];
    snprintf(path, sizeof path, "/jobs/%lld/events", job);
    for (;;) { /* events end after an hour, and with the connection */
        answer got = {.listener = listener ? listener : ignore, .context = context};
        if (perform(grid, "GET", path, "Accept: text/event-stream", NULL, &got)) return NULL;
        free(got.body.bytes);
        const char *state = cJSON_GetStringValue(cJSON_GetObjectItem(got.last, "state"));
        for (size_t i = 0; state != NULL && i < sizeof OVER / sizeof *OVER; i++) {
            if (strcmp(state, OVER[i]) == 0) return got.last;
        }
        if (state == NULL) { /* an event that tells an error */
            const char *detail = cJSON_GetStringValue(cJSON_GetObjectItem(got.last, "detail"));
            fail(grid, detail ? detail : "the events have ended", NULL);
            cJSON_Delete(got.last);
            return NULL;
        }
        cJSON_Delete(got.last);
    }
}

/* The path with the name behind it, each part of the name escaped. */
static char *escaped(phalanx *grid, const char *path, const char *name) {
    buffer made = {0};
    int failed = append(&made, path, strlen(path));
    while (!failed && *name) {
        size_t length = strcspn(name, "/");
        char *part = length ? curl_easy_escape(grid->curl, name, (int)length) : NULL;
        failed = length ? part == NULL || append(&made, part, strlen(part)) : append(&made, "/", 1);
        curl_free(part);
        name += length ? length : 1;
    }
    if (!failed) return made.bytes;
    free(made.bytes);
    return NULL;
}

static char *bytes_at(phalanx *grid, const char *path, const char *name, size_t *length) {
    char *at = escaped(grid, path, name);
    answer got = {0};
    int failed = at == NULL || perform(grid, "GET", at, "Accept: */*", NULL, &got);
    free(at);
    if (failed || (got.body.bytes == NULL && append(&got.body, "", 0))) return NULL;
    if (length != NULL) *length = got.body.length;
    return got.body.bytes;
}

char *phalanx_log(phalanx *grid, long long job, long index, const char *stream, size_t *length) {
    char path[128];
    snprintf(path, sizeof path, "/jobs/%lld/processes/%ld/logs/", job, index);
    return bytes_at(grid, path, stream, length);
}

char *phalanx_output(phalanx *grid, long long job, long index, const char *name, size_t *length) {
    char path[128];
    snprintf(path, sizeof path, "/jobs/%lld/processes/%ld/outputs/", job, index);
    return bytes_at(grid, path, name, length);
}

char *phalanx_read(phalanx *grid, const char *path, size_t *length) { return bytes_at(grid, "/files", path, length); }

int phalanx_write(phalanx *grid, const char *path, const void *bytes, size_t length) {
    char *at = escaped(grid, "/files", path);
    buffer sent = {(char *)bytes, length};
    answer got = {0};
    int failed = at == NULL || perform(grid, "PUT", at, "Content-Type: application/octet-stream", &sent, &got);
    free(at);
    free(got.body.bytes);
    return failed ? -1 : 0;
}

/* Asks a space, with a body that is deleted. */
static cJSON *ask_space(phalanx *grid, const char *space, const char *word, cJSON *body) {
    char *name = curl_easy_escape(grid->curl, space, 0), *path = text("/spaces/%s/%s", name ? name : "", word);
    cJSON *found = path ? phalanx_ask(grid, "POST", path, body) : NULL;
    free(path);
    curl_free(name);
    cJSON_Delete(body);
    return found;
}

int phalanx_out(phalanx *grid, const char *space, cJSON *tuple) {
    cJSON *body = cJSON_CreateObject();
    cJSON_AddItemToObject(body, "tuple", tuple);
    cJSON *done = ask_space(grid, space, "out", body);
    cJSON_Delete(done);
    return done ? 0 : -1;
}

cJSON *phalanx_in(phalanx *grid, const char *space, cJSON *pattern, double timeout, double lease) {
    cJSON *body = cJSON_CreateObject();
    cJSON_AddItemToObject(body, "template", pattern);
    cJSON_AddNumberToObject(body, "timeout", timeout);
    if (lease > 0) cJSON_AddNumberToObject(body, "lease", lease);
    return ask_space(grid, space, "in", body);
}

int phalanx_keep(phalanx *grid, const cJSON *found) {
    const char *taken = cJSON_GetStringValue(cJSON_GetObjectItem(found, "taken"));
    char *path = text("/taken/%s/keep", taken ? taken : "");
    cJSON *done = path ? phalanx_ask(grid, "POST", path, NULL) : NULL;
    free(path);
    cJSON_Delete(done);
    return done ? 0 : -1;
}

static cJSON *with_field(const char *name, cJSON *value) {
    cJSON *made = cJSON_CreateObject();
    cJSON_AddItemToObject(made, name, value);
    return made;
}

cJSON *phalanx_any(const char *type) { return with_field("type", cJSON_CreateString(type)); }

cJSON *phalanx_float(double value) { return with_field("float", cJSON_CreateNumber(value)); }
