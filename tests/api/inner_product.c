/* The inner product of two vectors that are distributed cyclically (Bisseling, "Parallel Scientific Computation", 1.3). */

#include <bsp.h>
#include <stdio.h>
#include <stdlib.h>

static int length;

static void inner_product(void)
{
    bsp_begin(bsp_nprocs());
    int processes = bsp_nprocs(), pid = bsp_pid();

    bsp_push_reg(&length, sizeof length);
    bsp_sync();
    bsp_get(0, &length, 0, &length, sizeof length);
    bsp_sync();
    bsp_pop_reg(&length);

    double *sums = calloc(processes, sizeof *sums), sum = 0;
    bsp_push_reg(sums, processes * (int)sizeof *sums);
    bsp_sync();
    for (int i = pid; i < length; i += processes)
        sum += (double)i * i;
    for (int other = 0; other < processes; other++)
        bsp_put(other, &sum, sums, pid * (int)sizeof sum, sizeof sum);
    bsp_sync();
    sum = 0;
    for (int other = 0; other < processes; other++)
        sum += sums[other];
    printf("sum %.0f of %d by %d of %d\n", sum, length, pid, processes);
    bsp_pop_reg(sums);
    bsp_end();
    free(sums);
}

int main(int argc, char **argv)
{
    bsp_init(inner_product, argc, argv);
    length = atoi(argv[1]);
    inner_product();
    return 0;
}
