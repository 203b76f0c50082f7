/* empty_sync SECONDS: µs of a superstep in which nothing is done: the median over batches of the mean in a batch. */
#include "median.h"
#include <bsp.h>
#include <stdio.h>
#include <stdlib.h>

enum { BATCHES = 15, FEW = 200 };

static double batch(long count)
{
    double begin = bsp_time();
    for (long number = 0; number < count; number++)
        bsp_sync();
    return (bsp_time() - begin) / count;
}

int main(int words_count, char **words)
{
    double means[BATCHES];
    long count;
    bsp_begin(bsp_nprocs());
    bsp_push_reg(&count, sizeof count);
    bsp_sync();
    count = atof(words[words_count - 1]) / BATCHES / batch(FEW);
    count = count > 0 ? count : 1;
    if (bsp_pid() == 0)
        for (int pid = 1; pid < bsp_nprocs(); pid++)
            bsp_put(pid, &count, &count, 0, sizeof count);
    bsp_sync();
    for (int number = 0; number < BATCHES; number++)
        means[number] = batch(count);
    if (bsp_pid() == 0)
        printf("sync %g\n", median(means, BATCHES) * 1e6);
    bsp_end();
    return 0;
}
