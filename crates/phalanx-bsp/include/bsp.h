/* BSPlib of phalanx: C programs in supersteps.
 *
 * The functions are those of J. Hill et al., "BSPlib: the BSP programming library", Parallel Computing 24 (1998).
 * Lengths and offsets are in bytes. What is wrong ends the program on all processes, with a message that names the
 * function, the process and the reason.
 */

#ifndef PHALANX_BSP_H
#define PHALANX_BSP_H

#include <stdarg.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Other libraries have names for these. */
typedef int bsp_pid_t;
typedef int bsp_nprocs_t;
typedef int bsp_size_t;

/* The program. It runs between bsp_begin and bsp_end, on at most `maxprocs` processes: as many as were started.
 * Where bsp_begin is not the first thing that main does, main calls bsp_init first, with the function that calls
 * bsp_begin; `maxprocs` counts at process 0. */
void bsp_init(void (*spmd)(void), int argc, char **argv);
void bsp_begin(int maxprocs);
void bsp_end(void);

/* How many processes the program has; before bsp_begin, how many there may be. */
int bsp_nprocs(void);
/* This process's number, from 0. */
int bsp_pid(void);
/* Seconds since bsp_begin. */
double bsp_time(void);

/* Ends the superstep: all processes meet here, and what they asked for happens. */
void bsp_sync(void);

/* Memory that others may write and read from the next superstep on. All processes register in the same order, each its own
 * memory, of its own size; NULL and 0 for none. The other functions name it by its address here. All remove the same; NULL is
 * whatever the others remove. */
void bsp_push_reg(const void *area, int nbytes);
void bsp_pop_reg(const void *area);

/* Writes to and reads from memory of process `pid`, at the end of the superstep. Reads see what is there before anything
 * is written, and what was put lies over what was read. */
void bsp_put(int pid, const void *source, void *area, int offset, int nbytes);
void bsp_get(int pid, const void *area, int offset, void *destination, int nbytes);
/* The same at any time until the end of the superstep, without copies of what is long. */
void bsp_hpput(int pid, const void *source, void *area, int offset, int nbytes);
void bsp_hpget(int pid, const void *area, int offset, void *destination, int nbytes);

/* Messages. They are in the receiver's queue in the superstep that follows, in the order of senders and of their calls. */
/* The length of tags from the next superstep on; gives back what was set before. */
void bsp_set_tagsize(int *nbytes);
void bsp_send(int pid, const void *tag, const void *payload, int nbytes);
/* How many messages are left, and the bytes of their payloads. */
void bsp_qsize(int *messages, int *nbytes);
/* Of the first message: the length of its payload, and its tag; -1 when there is none. */
void bsp_get_tag(int *nbytes, void *tag);
/* Takes the first message out, and copies at most `nbytes` of its payload. */
void bsp_move(void *payload, int nbytes);
/* Takes it out without a copy: the length of its payload, or -1 when there is none. It stays until the next bsp_sync. */
int bsp_hpmove(void **tag, void **payload);

/* Checkpoints, which BSPlib does not have: a program that loses a process or a machine goes on from the last one. */
/* Makes one every so many supersteps, 0: none. Called before bsp_begin; `phalanx bsprun --checkpoint` counts more. */
void bsp_set_checkpoint(int supersteps);
/* Memory that is saved beside what is registered, such as the number of the step; each process its own. Declare the same
 * in the same order when the program is started again. */
void bsp_declare(void *memory, int nbytes);
/* Ends the superstep as bsp_sync does, at a place from which the program can go on: when it is time for that, saves
 * registered and declared memory and the messages of the queue, at each process. All processes call it. A program that was
 * started again runs from its top and registers the same; its first call of this brings back what was saved last, and
 * gives 1. All other calls give 0. */
int bsp_checkpoint(void);
/* Asks for a place on another machine for this process, and for those that are with it on its machine. At the next
 * bsp_checkpoint all save, and the program is started again there. Any process may call it; where there is no place,
 * phalanx bsprun says so, and the program goes on where it is. */
void bsp_leave_machine(void);

/* Used by bsp_abort. */
void phalanx_bsp_abort(const char *text);

/* Ends the program on all processes, with a message as of printf. */
#ifdef __GNUC__
__attribute__((format(printf, 1, 2), unused))
#endif
static void bsp_abort(const char *format, ...)
{
    char text[1024];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    phalanx_bsp_abort(text);
}

#ifdef __cplusplus
}
#endif

#endif
