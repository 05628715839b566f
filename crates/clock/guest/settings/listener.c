/*
 * Listeners for user notification that a program makes itself (SECCOMP_FILTER_FLAG_NEW_LISTENER).
 *
 * The kernel gives a thread one listener, and a dilated one has the injector's. So the injector keeps the program's
 * (src/listeners.rs). The descriptor that the program gets is one end of a pair of sockets: it is handed on, waited for
 * and closed as a listener is. Calls of which the program's filter says RET_USER_NOTIF trap, with the listener's number
 * (sandbox.c), and are told to the injector, by a notification of its own that lasts until there is an answer. What a
 * supervisor asks of its listener by ioctl goes to the injector, too.
 */
#include "../dilation.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>

#define POLLIN 1
#define POLLHUP 16

/* Requests to the injector: a listener; an answer to a call; what a supervisor asks by ioctl. */
enum { MAKE, TELL, ASK };

/* A call that is told: the injector reads its first nine words, and writes the last. */
struct told {
	u64 number, nr, ip, a[6];
	u64 state; /* ANSWERED, GO_ON */
};
enum { NOT_YET, ANSWERED, GO_ON };

/* As for an exec (exec.c): until the injector has taken notice, a signal ends the call. */
static long ask(u64 what, u64 a, u64 b, u64 c)
{
	long result;
	do
		result = syscall(DIORAMA_CALL_LISTENER, what, a, b, c);
	while (result == -EINTR);
	return result;
}

long ask_injector(u64 what, u64 about)
{
	return ask(what, about, 0, 0);
}

long make_listener(u64 flags, u32 *data)
{
	u64 number;
	if ((flags & SECCOMP_FILTER_FLAG_TSYNC) && !(flags & SECCOMP_FILTER_FLAG_TSYNC_ESRCH))
		return -EINVAL;
	if (*(u64 *)DIORAMA_LISTENED)
		return -EBUSY;
	long fd = ask(MAKE, (u64)&number, 0, 0);
	if (fd >= 0)
		*data = DIORAMA_LISTENER_DATA + (u32)number;
	return fd;
}

/* Carries out a call of which the supervisor has said that it may go on. */
static long go_on(struct call *c)
{
	if (c->nr == __NR_clone || c->nr == __NR_fork || c->nr == __NR_vfork)
		return call_clone(c);
	long result = make_from(c, CARRY_OUT);
	return result == -DIORAMA_NOT_JUDGED ? dispatch(c) : result;
}

long call_supervised(struct call *c, u32 data)
{
	long result;
	if (!(data & DIORAMA_LISTENER_UNJUDGED)) {
		result = make_from(c, JUDGE_AGAIN);
		if (result != -ENOSYS && result != -DIORAMA_NOT_JUDGED)
			return result;
	}
	struct told t = { .number = data % DIORAMA_LISTENERS, .nr = c->nr, .ip = c->context->rip };
	copy(t.a, c->a, sizeof t.a);
	do
		result = syscall(DIORAMA_CALL_LISTENER, TELL, &t);
	while (result == -EINTR && t.state == NOT_YET);
	return t.state == GO_ON ? go_on(c) : result;
}

/* ioctl(listener, SECCOMP_IOCTL_NOTIF_…, argument) */
long call_listener(struct call *c)
{
	for (;;) {
		long result = ask(ASK, c->a[0], c->a[1], c->a[2]);
		if (result == -DIORAMA_NO_LISTENER)
			return as_is(c);
		if (result != -EAGAIN)
			return result;
		/* Nobody has called yet. */
		struct {
			i32 fd;
			short events, revents;
		} p = { (i32)c->a[0], POLLIN, 0 };
		result = syscall(__NR_ppoll, &p, 1, 0, 0, 8);
		if (result < 0)
			return result;
		if (!(p.revents & POLLIN) || (p.revents & POLLHUP))
			return -ENOENT; /* and nobody will */
	}
}
