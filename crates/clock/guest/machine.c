/*
 * Programs that run another on a machine of their own: valgrind, qemu-user. They make the other's system calls, and
 * learn from where a signal has interrupted them how far such a call had come: not begun, done with this result, or to
 * be made again. In the midst of our answer to a trapped call they would find an address that they do not know. And
 * they write the signals to be blocked into the frame of a signal themselves, where ours must not be.
 *
 * So in such a program (`STATE->machine`) all handlers are called by one of ours. A signal that comes in the midst of
 * an answer is sent once more, blocked until the answer is complete; it is taken where the program's own call ends, as
 * natively. A call that waits is told that it was interrupted. Of a signal that comes after the trap, but before the
 * image begins to wait, it is not: then it comes when the wait ends.
 *
 * Who is one: whoever does away with the vDSO (sites.c), and who is called qemu-…, by its path or its first argument.
 */
#include "dilation.h"

#define SIGILL 4
#define SIGTRAP 5
#define SIGBUS 7
#define SIGFPE 8
#define SA_RESTART 0x10000000ull

#define MARK 0x5b1d0c3f5705e11full
/* Beside on_sigsys (vdso.lds): where the mark is not set, or not any more. */
#define BESIDE __attribute__((section(".text.trap")))
/* More than lies between the stack pointer of an answer and what on_sigsys has put there. */
#define FAR 2048

BESIDE void begin_answer(struct answered *it, const struct call *call)
{
	it->mark = MARK;
	it->self = (u64)it;
	it->call = call;
	it->interrupted = it->ends = false;
}

/* Where on_sigsys lies, what is beside it, and the return from it. */
extern const u8 trap_begin[], trap_end[];

/* The call in whose answer a signal has come; 0 if in none. What others have left behind does not find itself there. */
static struct answered *being_answered(const struct ucontext *u)
{
	if (u->rip - DIORAMA_IMAGE >= DIORAMA_MEMFD_SIZE)
		return 0;
	for (u64 at = u->rsp & ~7ull; at < u->rsp + FAR && (PAGE_OF(at) != at || is_readable(at, 1)); at += 8) {
		struct answered *it = (struct answered *)at;
		if (it->mark == MARK && is_readable(at, sizeof *it) && it->self == at)
			return it;
	}
	return 0;
}

/* Calls that are made again after a handler that was installed with SA_RESTART. */
BESIDE static bool restarts(u64 nr)
{
	switch (nr) {
	case __NR_wait4:
	case __NR_waitid:
	case __NR_recvmsg:
	case __NR_recvfrom:
	case __NR_sendmsg:
	case __NR_sendto:
	case __NR_read:
	case __NR_readv:
	case __NR_write:
	case __NR_writev:
	case __NR_mq_timedsend:
	case __NR_mq_timedreceive:
		return true;
	default:
		return false;
	}
}

/* Calls that a signal interrupts. */
static bool waits(u64 nr)
{
	switch (nr) {
	case __NR_clock_nanosleep:
	case __NR_futex:
	case __NR_futex_wait:
	case __NR_futex_waitv:
	case __NR_ppoll:
	case __NR_poll:
	case __NR_pselect6:
	case __NR_select:
	case __NR_epoll_wait:
	case __NR_epoll_pwait:
	case __NR_epoll_pwait2:
	case __NR_rt_sigtimedwait:
	case __NR_rt_sigsuspend:
	case __NR_semtimedop:
	case __NR_io_getevents:
	case __NR_io_pgetevents:
	case __NR_recvmmsg:
		return true;
	default:
		return restarts(nr);
	}
}

/* Whether other signals are blocked as long as the call waits: one that comes then is perhaps blocked afterwards. */
static bool has_mask(const struct call *c)
{
	switch (c->nr) {
	case __NR_rt_sigsuspend:
		return true;
	case __NR_ppoll:
		return c->a[3];
	case __NR_epoll_pwait:
	case __NR_epoll_pwait2:
		return c->a[4];
	case __NR_pselect6:
	case __NR_io_pgetevents:
		return c->a[5];
	default:
		return false;
	}
}

static bool comes_from_the_program(i32 sig, const struct siginfo *info)
{
	return info->code > 0 && (sig == SIGSEGV || sig == SIGBUS || sig == SIGFPE || sig == SIGILL || sig == SIGTRAP);
}

/* Postpones the signal, if it still has this handler. `it` is 0 if the answer has not begun, or is complete. */
static bool postpone(i32 sig, const struct siginfo *info, struct ucontext *u, struct answered *it)
{
	struct kernel_sigaction now;
	if (syscall(__NR_rt_sigaction, sig, 0, &now, 8) || now.handler != (u64)on_any_signal ||
	    syscall(__NR_rt_tgsigqueueinfo, syscall(__NR_getpid), syscall(__NR_gettid), sig, info))
		return false;
	u->sigmask |= MASK_OF(sig);
	if (!it)
		return true;
	/* About to wait, or to wait again. */
	if (waits(it->call->nr) && waits(u->rax) && *(const u16 *)u->rip == 0x050f) {
		u->rip += 2;
		u->rax = (u64)-EINTR;
	}
	it->interrupted = true;
	it->ends |= !(now.flags & SA_RESTART);
	return true;
}

__attribute__((visibility("hidden"))) void on_any_signal(int sig, struct siginfo *info, struct ucontext *u)
{
	void (*handler)(int, struct siginfo *, struct ucontext *) = (void *)STATE->handlers[sig - 1];
	bool within = u->rip - (u64)trap_begin < (u64)(trap_end - trap_begin);
	struct answered *it = being_answered(u);
	if (comes_from_the_program(sig, info)) {
		/* It is of what the handler has been interrupted in, whatever that be. */
	} else if (it && has_mask(it->call)) {
		/* It must be taken here. To the program it comes where its call has ended. */
		u = it->call->context;
		u->rax = (u64)-EINTR;
	} else if ((it || within) && postpone(sig, info, u, it)) {
		return;
	}
	handler(sig, info, u);
	u->sigmask &= ~our_signals();
}

BESIDE void end_answer(struct answered *it)
{
	struct ucontext *u = it->call->context;
	it->mark = 0;
	__asm__ volatile("" : : "r"(it) : "memory");
	if (it->interrupted && !it->ends && u->rax == (u64)-EINTR && restarts(it->call->nr)) {
		u->rip -= 2;
		u->rax = it->call->nr;
	}
}

u64 wrapped(i32 sig, u64 handler)
{
	if (!STATE->machine || handler <= 1)
		return handler;
	STATE->handlers[sig - 1] = handler;
	return (u64)on_any_signal;
}

/* `path` ends with a name as qemu-user's programs have. */
static bool is_emulator(const char *path)
{
	static const char begins[] = "qemu-", not[] = "qemu-system";
	const char *name = path;
	for (; *path; path++)
		if (*path == '/')
			name = path + 1;
	u64 same = 0;
	while (same < sizeof begins - 1 && name[same] == begins[same])
		same++;
	if (same < sizeof begins - 1)
		return false;
	while (same < sizeof not - 1 && name[same] == not[same])
		same++;
	return same < sizeof not - 1;
}

void find_machine(const char *path)
{
	if (is_emulator(path))
		STATE->machine = STATE->sites_closed = true;
}
