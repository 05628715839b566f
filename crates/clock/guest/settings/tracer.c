/*
 * A program that traces another, whose filter wants it to be told of calls (SECCOMP_RET_TRACE).
 *
 * The kernel asks a tracer only about calls that no filter traps, and carries out what the tracer lets go on. So a call
 * that has trapped is made once more, from an address from which filter.c lets it pass and the program's own filter is
 * obeyed (DIORAMA_TELL): the tracer stops it, sees number and arguments, and may change them or skip the call. It must
 * not be carried out as it stands, which takes the tracer: when it lets the thread go on, the image in the tracer moves
 * that to the address from which a call is only judged (DIORAMA_JUDGE_AGAIN), before the kernel looks at it again. What
 * the tracer has left of it is then done by the image in the thread, as ever.
 *
 * So whoever attaches to another gets one more filter, which traps ptrace and the calls that wait for what is traced.
 * These also hide the stops for the signal by which calls trap, and look whether that will find its handler: some keep
 * processes for what others run in them, and empty them of all that was there (gVisor). A tracer that is not dilated is
 * not asked: the injector knows, and says so.
 */
#include "../dilation.h"
#include "../trap_outside.h"

#include <linux/audit.h>

#define PTRACE_PEEKDATA 2
#define PTRACE_CONT 7
#define PTRACE_SINGLESTEP 9
#define PTRACE_GETREGS 12
#define PTRACE_SETREGS 13
#define PTRACE_ATTACH 16
#define PTRACE_DETACH 17
#define PTRACE_SYSCALL 24
#define PTRACE_SYSEMU 31
#define PTRACE_SYSEMU_SINGLESTEP 32
#define PTRACE_SINGLEBLOCK 33
#define PTRACE_GETSIGINFO 0x4202
#define PTRACE_SEIZE 0x4206
#define PTRACE_GET_SYSCALL_INFO 0x420e
#define CLD_TRAPPED 4

/* struct ptrace_syscall_info, as far as it is of interest. */
struct syscall_info {
	u8 op, pad[3];
	u32 arch;
	u64 ip, sp, nr, rest[8];
};
enum { AT_SECCOMP = 3 };

/* struct user_regs_struct */
struct registers {
	u64 r15, r14, r13, r12, rbp, rbx, r11, r10, r9, r8, rax, rcx, rdx, rsi, rdi, orig_rax, rip, cs, eflags, rsp,
	    rest[7];
};

/* Has ptrace trap, and what waits for the traced. */
static void trap_tracing(void)
{
	static const struct sock_filter code[] = {
		{ BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, arch) },
		{ BPF_JMP | BPF_JEQ | BPF_K, 1, 0, AUDIT_ARCH_X86_64 },
		{ BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW },
		{ BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr) },
		{ BPF_JMP | BPF_JEQ | BPF_K, 3, 0, __NR_ptrace },
		{ BPF_JMP | BPF_JEQ | BPF_K, 2, 0, __NR_wait4 },
		{ BPF_JMP | BPF_JEQ | BPF_K, 1, 0, __NR_waitid },
		{ BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW },
		TRAP_OUTSIDE,
	};
	if (STATE->traces)
		return;
	/* Where it waits without a signal, it would not be asked. */
	restore_sites();
	STATE->traces = add_filter(code, sizeof code / sizeof *code);
}

/* A thread that has stopped where it tells of a call: the call that the tracer has left is judged, and no more. */
static void judge_only(u64 tid)
{
	struct syscall_info at;
	struct registers r;
	if (syscall(__NR_ptrace, PTRACE_GET_SYSCALL_INFO, tid, sizeof at, &at) <= 0 || at.op != AT_SECCOMP ||
	    at.ip != DIORAMA_IMAGE + DIORAMA_TELL || (i32)at.nr < 0 ||
	    syscall(__NR_ptrace, PTRACE_GETREGS, tid, 0, &r))
		return;
	r.rip = DIORAMA_IMAGE + DIORAMA_JUDGE_AGAIN;
	r.rcx = at.nr; /* which the thread cannot see otherwise; natively the call's own address */
	syscall(__NR_ptrace, PTRACE_SETREGS, tid, 0, &r);
}

long call_ptrace(struct call *c)
{
	switch (c->a[0]) {
	case PTRACE_ATTACH:
	case PTRACE_SEIZE:
		trap_tracing();
		break;
	case PTRACE_CONT:
	case PTRACE_SINGLESTEP:
	case PTRACE_SYSCALL:
	case PTRACE_SYSEMU:
	case PTRACE_SYSEMU_SINGLESTEP:
	case PTRACE_SINGLEBLOCK: {
		u32 slot = (u32)c->a[1] % TRACED;
		STATE->traced[slot].tid = (i32)c->a[1];
		STATE->traced[slot].request = (u32)c->a[0];
	} /* fallthrough */
	case PTRACE_DETACH:
		judge_only(c->a[1]);
	}
	return as_is(c);
}

/* Whether a thread can answer a trapped call: has the handler of its traps, where it is here, too, and a stack. */
static bool can_answer(i32 tid)
{
	u64 at = (u64)on_sigsys & ~7ull, word;
	struct registers r;
	if (syscall(__NR_ptrace, PTRACE_PEEKDATA, tid, at, &word) || word != *(const u64 *)at)
		return false;
	if (syscall(__NR_ptrace, PTRACE_GETREGS, tid, 0, &r))
		return true;
	/* The end of its frame, or what is above that: a little below the pointer. */
	return !syscall(__NR_ptrace, PTRACE_PEEKDATA, tid, (r.rsp - 0x200) & ~7ull, &word);
}

bool stopped_for_us(i32 tid)
{
	struct siginfo info;
	const u32 slot = (u32)tid % TRACED;
	if (syscall(__NR_ptrace, PTRACE_GETSIGINFO, tid, 0, &info) || info.signo != SIGSYS || info.code != 1 ||
	    (info.err != DIORAMA_TRAP_DATA && (u32)info.err - DIORAMA_LISTENER_DATA >= 2 * DIORAMA_LISTENERS))
		return false;
	/* Waiting traps for this file's sake alone, and gVisor, which has a process without either wait, does without. */
	if (info.syscall != __NR_wait4 && info.syscall != __NR_waitid && !can_answer(tid))
		ask_injector(DIORAMA_EMPTIED, (u64)(u32)info.syscall);
	u64 request = STATE->traced[slot].tid == tid ? STATE->traced[slot].request : PTRACE_CONT;
	return !syscall(__NR_ptrace, request, tid, 0, SIGSYS);
}

long wait_as_tracer(struct call *c, void *info)
{
	bool by_id = c->nr == __NR_waitid;
	for (;;) {
		i32 status = 0, own[32] = { 0 };
		long result = by_id ? syscall(__NR_waitid, c->a[0], c->a[1], own, c->a[3], info) :
				      syscall(__NR_wait4, c->a[0], &status, c->a[2], info);
		if (by_id ? result == 0 && own[2] == CLD_TRAPPED && own[6] == SIGSYS && stopped_for_us(own[4]) :
			    result > 0 && status == (SIGSYS << 8 | 0x7f) && stopped_for_us((i32)result))
			continue;
		/* Which the kernel writes whatever comes of it. */
		if (by_id && c->a[2] && !write_user(c->a[2], own, 7 * sizeof *own))
			return -EFAULT;
		if (!by_id && result > 0 && c->a[1] && !write_user(c->a[1], &status, sizeof status))
			return -EFAULT;
		return result;
	}
}

/* Makes the call from DIORAMA_TELL with the program's registers, and takes what the tracer has left of them. */
long tell_tracer(struct call *c);
__asm__(".hidden tell_tracer\n"
	".globl tell_tracer\n"
	".type tell_tracer, @function\n"
	"tell_tracer:\n"
	"	push %rbx\n"
	"	push %rbp\n"
	"	push %r12\n"
	"	push %r13\n"
	"	push %r14\n"
	"	push %r15\n"
	"	push %rdi\n"
	"	mov 56(%rdi), %rcx\n"
	"	mov 72(%rcx), %r12\n"
	"	mov 80(%rcx), %r13\n"
	"	mov 88(%rcx), %r14\n"
	"	mov 96(%rcx), %r15\n"
	"	mov 120(%rcx), %rbp\n"
	"	mov 128(%rcx), %rbx\n"
	LOAD_CALL
	"	call tell_from\n"
	"	mov (%rsp), %rbx\n"
	"	mov %rcx, (%rbx)\n"
	"	mov %rdi, 8(%rbx)\n"
	"	mov %rsi, 16(%rbx)\n"
	"	mov %rdx, 24(%rbx)\n"
	"	mov %r10, 32(%rbx)\n"
	"	mov %r8, 40(%rbx)\n"
	"	mov %r9, 48(%rbx)\n"
	"	pop %rdi\n"
	"	pop %r15\n"
	"	pop %r14\n"
	"	pop %r13\n"
	"	pop %r12\n"
	"	pop %rbp\n"
	"	pop %rbx\n"
	"	ret\n");
_Static_assert(offsetof(struct call, context) == 56 && offsetof(struct ucontext, r12) == 72 &&
		       offsetof(struct ucontext, rbp) == 120 && offsetof(struct ucontext, rbx) == 128,
	       "tell_tracer says where");

bool answered_by_tracer(struct call *c, long *result)
{
	u64 nr = c->nr;
	struct ucontext *u = c->context;
	*result = -ENOSYS;
	if (ask_injector(DIORAMA_TRACED, 0) != DIORAMA_TRACED_WITHIN)
		return true;
	*result = tell_tracer(c);
	/* They stay as the tracer has left them. */
	u->rdi = c->a[0], u->rsi = c->a[1], u->rdx = c->a[2], u->r10 = c->a[3], u->r8 = c->a[4], u->r9 = c->a[5];
	bool skipped = c->nr == DIORAMA_IMAGE + DIORAMA_TELL;
	c->nr = skipped ? nr : (u32)c->nr;
	return skipped || *result != -DIORAMA_NOT_JUDGED;
}
