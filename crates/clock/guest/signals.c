/* Signal masks without our signals, and sigaction of these kept here (dilation.h says why). */
#include "dilation.h"

#define SIG_DFL 0
#define SIG_IGN 1
#define SA_SIGINFO 4ull
#define SA_NODEFER 0x40000000ull
#define SA_RESETHAND 0x80000000ull

u64 our_signals(void)
{
	return MASK_OF(SIGSYS) | (STATE->given.tsc_cycles ? MASK_OF(SIGSEGV) : 0);
}

long read_mask(u64 *mask, u64 from, u64 size)
{
	if (size != 8)
		return -EINVAL;
	if (!read_user(mask, from, 8))
		return -EFAULT;
	*mask &= ~our_signals();
	return 0;
}

/* The mask is not this handler's but the interrupted program's: the kernel sets it from the frame when we return. */
long call_rt_sigprocmask(struct call *c)
{
	u64 set, old;
	if (c->a[3] != 8)
		return -EINVAL;
	if (!c->context) {
		long wrong = c->a[1] ? read_mask(&set, c->a[1], 8) : 0;
		return wrong ? wrong : syscall(__NR_rt_sigprocmask, c->a[0], c->a[1] ? &set : 0, c->a[2], 8);
	}
	old = c->context->sigmask;
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
 * id. A process that is not listed has what it inherited: its parent's, or slot 0, the first.
 */
static u32 slot_of(i32 pid)
{
	for (u32 i = 0; i < ACTION_SLOTS; i++)
		if (STATE->actions[i].set && STATE->actions[i].pid == pid)
			return i;
	return ACTION_SLOTS;
}

static struct kernel_sigaction *own_action(i32 sig, bool create)
{
	i32 pid = (i32)syscall(__NR_getpid);
	u32 slot = slot_of(pid);
	if (slot == ACTION_SLOTS) {
		u32 inherited = slot_of((i32)syscall(__NR_getppid));
		slot = inherited < ACTION_SLOTS ? inherited : 0;
		if (create) {
			u32 own = STATE->actions_next;
			STATE->actions_next = own + 1 < ACTION_SLOTS ? own + 1 : 1;
			STATE->actions[own] = STATE->actions[slot];
			STATE->actions[own].pid = pid;
			STATE->actions[own].set = 1;
			slot = own;
		}
	}
	return sig == SIGSYS ? &STATE->actions[slot].sigsys : &STATE->actions[slot].sigsegv;
}

long call_rt_sigaction(struct call *c)
{
	struct kernel_sigaction action;
	if (c->a[3] != 8)
		return -EINVAL;
	if (c->a[1]) {
		if (!read_user(&action, c->a[1], sizeof action))
			return -EFAULT;
		action.mask &= ~our_signals();
	}
	i32 sig = (i32)c->a[0];
	if (sig < 1 || sig > 64)
		return syscall(__NR_rt_sigaction, c->a[0], c->a[1] ? &action : 0, c->a[2], 8);
	if (!(MASK_OF(sig) & our_signals())) {
		u64 handler = STATE->handlers[sig - 1];
		if (c->a[1])
			action.handler = wrapped(sig, action.handler);
		long result = syscall(__NR_rt_sigaction, c->a[0], c->a[1] ? &action : 0, c->a[2], 8);
		if (!result && c->a[2] && ((struct kernel_sigaction *)c->a[2])->handler == (u64)on_any_signal)
			((struct kernel_sigaction *)c->a[2])->handler = handler;
		return result;
	}
	struct kernel_sigaction old = *own_action(sig, false);
	if (c->a[1])
		*own_action(sig, true) = action;
	if (c->a[2] && !write_user(c->a[2], &old, sizeof old))
		return -EFAULT;
	return 0;
}

void clear_own_action(i32 sig)
{
	u64 handler = own_action(sig, false)->handler;
	*own_action(sig, true) = (struct kernel_sigaction){ .handler = handler == SIG_IGN ? SIG_IGN : SIG_DFL };
}

/* A signal that is not for us: sent by somebody, trapped by a filter of the program's own, a bad access. */
void foreign_signal(i32 sig, struct siginfo *info, struct ucontext *u)
{
	struct kernel_sigaction action = *own_action(sig, false);
	bool forced = info->code > 0;
	if (action.handler == SIG_DFL || (action.handler == SIG_IGN && forced)) {
		struct kernel_sigaction none = { 0, 0, 0, 0 };
		syscall(__NR_rt_sigaction, sig, &none, 0, 8);
		/* The bad access happens once more, and ends the program as it should; the others would not come again. */
		if (sig != SIGSEGV || !forced)
			syscall(__NR_tgkill, syscall(__NR_getpid), syscall(__NR_gettid), sig);
		return;
	}
	if (action.handler == SIG_IGN)
		return;
	if (action.flags & SA_RESETHAND)
		own_action(sig, true)->handler = SIG_DFL;
	/* Returning restores the mask from the frame. */
	syscall(__NR_rt_sigprocmask, 0, &action.mask, 0, 8);
	((void (*)(int, struct siginfo *, struct ucontext *))action.handler)(sig, info, u);
}
