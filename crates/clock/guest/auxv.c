/*
 * The auxiliary vector, whichever way a program comes by it: on its stack, where its libc looks; by prctl, as rustix
 * asks since Linux 6.4; or in /proc/PID/auxv, as it asks before, and Go's runtime in a library. Who finds the kernel's
 * vDSO in one of them reads the host's clock without a call that could trap.
 */
#include "dilation.h"

#define AT_SYSINFO_EHDR 33
#define AT_MINSIGSTKSZ 51
/* More than the handler of a trapped call uses. */
#define HANDLER_STACK 1024
#define PAIR (2 * sizeof(u64))

/* The value of an entry as a program is shown it: of other programs' vectors, too, which are dilated as it is. */
static u64 shown_entry(u64 key, u64 value)
{
	if (key == AT_SYSINFO_EHDR)
		return value ? DIORAMA_IMAGE : 0;
	/* Natively a handler's frame. Here a trapped call may lie above it, and another below. */
	if (key == AT_MINSIGSTKSZ)
		return 3 * value + 2 * HANDLER_STACK;
	return value;
}

void show_vector(u64 *vector, u64 bytes)
{
	for (; bytes >= PAIR && vector[0] != AT_NULL; vector += 2, bytes -= PAIR)
		vector[1] = shown_entry(vector[0], vector[1]);
}

/* prctl(PR_GET_AUXV, to, size): as much of it as there is room for, and how long it is. */
static long get_vector(struct call *c)
{
	long length = as_is(c);
	/* The kernel has just written so much of it, so it may be touched. */
	if (length > 0)
		show_vector((u64 *)c->a[1], (u64)length < c->a[2] ? (u64)length : c->a[2]);
	return length;
}

long call_prctl(struct call *c)
{
	return (u32)c->a[0] == PR_GET_AUXV ? get_vector(c) : call_seccomp(c);
}
