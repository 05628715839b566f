/* cpus.c: the CPUs of a program's machine. Where it sees the host's (`given.cpus` is 0), these are not asked. */
#ifndef DIORAMA_CPUS_H
#define DIORAMA_CPUS_H

#include "dilation.h"

/* A set of CPUs. */
struct cpu_set {
	u64 words[DIORAMA_AFFINITY_WORDS];
};
/* Those that a thread may use. */
struct cpu_set cpus_of(i32 tid);
/* The calling thread, which is new, may use these. */
void bind_thread(const struct cpu_set *cpus);
/* That on which the calling thread runs, and that on which another may have run. */
u32 current_cpu(void);
u32 last_cpu_of(i32 tid);
/* CPUs that the program was given by the one that executed it, if any; and those that this one gives to the next. */
void inherit_cpus(const u64 *words);
void hand_on_cpus(void);

#endif
