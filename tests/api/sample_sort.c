/* Sorts by regular sampling, with messages: each process sends each other one the numbers that belong there. */

#include <bsp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EACH = 5000 };

static int ascending(const void *one, const void *other)
{
    int a = *(const int *)one, b = *(const int *)other;
    return (a > b) - (a < b);
}

int main(void)
{
    bsp_begin(1000);
    int processes = bsp_nprocs(), pid = bsp_pid(), tagsize = sizeof(int);
    int own[EACH], *samples = malloc(processes * processes * sizeof(int)), *sorted = malloc(processes * EACH * sizeof(int));
    unsigned state = 12345u + pid;
    for (int i = 0; i < EACH; i++)
        own[i] = (int)((state = state * 1664525u + 1013904223u) >> 8);
    qsort(own, EACH, sizeof(int), ascending);

    bsp_push_reg(samples, processes * processes * (int)sizeof(int));
    bsp_set_tagsize(&tagsize);
    if (tagsize != 0)
        bsp_abort("the tag size was %d", tagsize);
    bsp_sync();
    for (int other = 0; other < processes; other++)
        for (int i = 0; i < processes; i++)
            bsp_put(other, &own[i * EACH / processes], samples, (pid * processes + i) * (int)sizeof(int), sizeof(int));
    bsp_sync();
    qsort(samples, processes * processes, sizeof(int), ascending);

    for (int other = 0, at = 0; other < processes; other++) {
        int begin = at;
        while (at < EACH && (other == processes - 1 || own[at] < samples[(other + 1) * processes]))
            at++;
        bsp_send(other, &pid, &own[begin], (at - begin) * (int)sizeof(int));
    }
    bsp_sync();

    int messages, bytes, length, sender, count = 0;
    bsp_qsize(&messages, &bytes);
    if (messages != processes)
        bsp_abort("%d messages came", messages);
    for (int other = 0; other < processes; other++) {
        bsp_get_tag(&length, &sender);
        if (sender != other)
            bsp_abort("the message of %d came as number %d", sender, other);
        if (other % 2) {
            bsp_move(sorted + count, length);
        } else {
            void *tag, *payload;
            if (bsp_hpmove(&tag, &payload) != length || *(int *)tag != sender)
                bsp_abort("hpmove says something else than get_tag");
            memcpy(sorted + count, payload, length);
        }
        count += length / (int)sizeof(int);
    }
    bsp_get_tag(&length, &sender);
    if (length != -1)
        bsp_abort("the queue is not empty");
    qsort(sorted, count, sizeof(int), ascending);
    for (int i = 0; i < count; i++)
        printf("%d\n", sorted[i]);
    bsp_end();
    free(samples);
    free(sorted);
    return 0;
}
