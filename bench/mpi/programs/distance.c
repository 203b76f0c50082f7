/* distance: nanoseconds that a word takes from one core to the other and back, between threads on this process's first two cores. */
#define _GNU_SOURCE
#include "median.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { BATCHES = 15, ROUNDS = 5000 };

static _Alignas(128) atomic_int there;
static _Alignas(128) atomic_int back;
static int cores[2];

static void stay_on(int core)
{
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(core, &only);
    sched_setaffinity(0, sizeof only, &only);
}

static void *answer(void *nothing)
{
    stay_on(cores[1]);
    for (int round = 1; round <= BATCHES * ROUNDS; round++) {
        while (atomic_load(&there) != round)
            ;
        atomic_store(&back, round);
    }
    return nothing;
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

int main(void)
{
    cpu_set_t allowed;
    double times[BATCHES];
    pthread_t thread;
    int found = 0, round = 0;
    sched_getaffinity(0, sizeof allowed, &allowed);
    for (int core = 0; core < CPU_SETSIZE && found < 2; core++)
        if (CPU_ISSET(core, &allowed))
            cores[found++] = core;
    if (found < 2)
        return 1;
    stay_on(cores[0]);
    pthread_create(&thread, NULL, answer, NULL);
    for (int batch = 0; batch < BATCHES; batch++) {
        double begin = now();
        for (int end = round + ROUNDS; round < end;) {
            atomic_store(&there, ++round);
            while (atomic_load(&back) != round)
                ;
        }
        times[batch] = (now() - begin) / ROUNDS;
    }
    pthread_join(thread, NULL);
    printf("distance %g\n", median(times, BATCHES));
    return 0;
}
