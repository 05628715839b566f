/*
 * dilate-exec: the static program that puts a command under dilation.
 *
 *   dilate-exec [--fd N] -- COMMAND [ARG…]   install the filter, hand its listener over descriptor N (3), execute it
 *                                            (main.c)
 *   dilate-exec --probe                      compare the clocks of this process on demand (probe.c)
 *   dilate-exec --measure WHAT N             time N operations (measure.c)
 *
 * It runs in containers of any root file system, so it needs no libc and no file.
 */
#ifndef DIORAMA_EXEC_H
#define DIORAMA_EXEC_H

#include "../dilation.h"

/* The code of env, timeout and the like for a failure of their own. */
#define EXIT_OWN 125
#define EXIT_CANNOT_EXECUTE 126
#define EXIT_NOT_FOUND 127

/*
 * filter.c: installs the filter for this thread and its descendants; whether looks trap, too. The listener's descriptor
 * or an error.
 */
long install_filter(bool looks);

/* probe.c, measure.c */
int probe(u64 *auxv);
int measure(char **argv, char **envp, u64 *auxv);

/* text.c */
u64 length(const char *s);
bool same(const char *a, const char *b);
void say(const char *s);
void say_number(u64 n);
u64 parse(const char *s);

/* elf.c: whether this process is dilated; clock_gettime of a vDSO, and where the real one's is then (else the same). */
bool is_dilated(u64 *auxv);
typedef long (*clock_fn)(i32, struct timespec *);
clock_fn virtual_clock(u64 *auxv);
clock_fn real_clock(u64 *auxv);

#endif
