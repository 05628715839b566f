/*
 * execve and execveat, which natively no signal interrupts. The injector is asked by seccomp's user notification, and
 * until it has taken that a handler without SA_RESTART would make EINTR of it. So the call is made here, again and
 * again until something else comes of it: the handler runs on top of this one just as it would have run before the
 * call, and the mask is the program's own at every moment, which the new program inherits.
 */
#include "cpus.h"

long call_execute(struct call *c)
{
	u64 ours = STATE->sandboxed ? DIORAMA_EXECUTE_SANDBOXED : DIORAMA_EXECUTE;
	long result;
	hand_on_cpus();
	do
		result = syscall(c->nr, c->a[0], c->a[1], c->a[2], c->a[3], c->a[4], ours);
	while (result == -EINTR);
	return result;
}
