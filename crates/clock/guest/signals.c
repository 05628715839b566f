/* Signal masks without SIGSYS, and sigaction(SIGSYS) kept here (dilation.h says why). */
#include "dilation.h"

#define SIG_DFL 0
#define SIG_IGN 1
#define SA_SIGINFO 4ull
#define SA_NODEFER 0x40000000ull
#define SA_RESETHAND 0x80000000ull

long read_mask(u64 *mask, u64 from, u64 size)
{
	if (size != 8)
		return -EINVAL;
	if (!read_user(mask, from, 8))
		return -EFAULT;
	*mask &= ~MASK_OF(SIGSYS);
	return 0;
}

/* The mask is not this handler's but the interrupted program's: the kernel sets it from the frame when we return. */
long call_rt_sigprocmask(struct call *c)
{
	u64 set, old = c->context->sigmask;
	if (c->a[3] != 8)
		return -EINVAL;
	if (c->a[1]) {
		long wrong = read_mask(&set, c->a[1], 8);
		if (wrong)
			return wrong;
		u64 now;
		switch ((i32)c->a[0]) {
		case 0: /* SIG_BLOCK */
			now = old | set;
			break;
		case 1: /* SIG_UNBLOCK */
			now = old & ~set;
			break;
		case 2: /* SIG_SETMASK */
			now = set;
			break;
		default:
			return -EINVAL;
		}
		c->context->sigmask = now & ~(MASK_OF(SIGKILL) | MASK_OF(SIGSTOP));
	}
	if (c->a[2] && !write_user(c->a[2], &old, 8))
		return -EFAULT;
	return 0;
}

long call_rt_sigsuspend(struct call *c)
{
	u64 mask;
	long wrong = read_mask(&mask, c->a[0], c->a[1]);
	return wrong ? wrong : syscall(__NR_rt_sigsuspend, &mask, 8);
}

/*
 * A vfork child shares this memory with its parent but has signal actions of its own, so actions are kept by process
 * id. A process that is not listed has what it inherited: slot 0.
 */
static struct kernel_sigaction *own_sigsys(bool create)
{
	i32 pid = (i32)syscall(__NR_getpid);
	for (u32 i = 0; i < SIGSYS_SLOTS; i++)
		if (STATE->sigsys[i].set && STATE->sigsys[i].pid == pid)
			return &STATE->sigsys[i].action;
	if (!create)
		return &STATE->sigsys[0].action;
	u32 i = STATE->sigsys_next;
	STATE->sigsys_next = i + 1 < SIGSYS_SLOTS ? i + 1 : 1;
	STATE->sigsys[i].pid = pid;
	STATE->sigsys[i].set = 1;
	return &STATE->sigsys[i].action;
}

long call_rt_sigaction(struct call *c)
{
	struct kernel_sigaction action;
	if (c->a[3] != 8)
		return -EINVAL;
	if (c->a[1]) {
		if (!read_user(&action, c->a[1], sizeof action))
			return -EFAULT;
		action.mask &= ~MASK_OF(SIGSYS);
	}
	if ((i32)c->a[0] != SIGSYS)
		return syscall(__NR_rt_sigaction, c->a[0], c->a[1] ? &action : 0, c->a[2], 8);
	struct kernel_sigaction old = *own_sigsys(false);
	if (c->a[1])
		*own_sigsys(true) = action;
	if (c->a[2] && !write_user(c->a[2], &old, sizeof old))
		return -EFAULT;
	return 0;
}

/* A SIGSYS that is not ours: sent by somebody, or trapped by a filter of the program's own. */
void foreign_sigsys(struct siginfo *info, struct ucontext *u)
{
	struct kernel_sigaction action = *own_sigsys(false);
	bool forced = info->code == 1;
	if (action.handler == SIG_DFL || (action.handler == SIG_IGN && forced)) {
		struct kernel_sigaction none = { 0, 0, 0, 0 };
		syscall(__NR_rt_sigaction, SIGSYS, &none, 0, 8);
		syscall(__NR_tgkill, syscall(__NR_getpid), syscall(__NR_gettid), SIGSYS);
		return;
	}
	if (action.handler == SIG_IGN)
		return;
	if (action.flags & SA_RESETHAND)
		own_sigsys(true)->handler = SIG_DFL;
	/* Returning restores the mask from the frame. */
	syscall(__NR_rt_sigprocmask, 0, &action.mask, 0, 8);
	((void (*)(int, struct siginfo *, struct ucontext *))action.handler)(SIGSYS, info, u);
}
