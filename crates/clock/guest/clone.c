/*
 * clone3. It traps because CLONE_CLEAR_SIGHAND would take away the handler of SIGSYS: the child does that work itself
 * (clear_handlers). And CLONE_NEWTIME is refused. And clone, fork and vfork, where a child inherits which CPUs it may
 * use (cpus.c): else these do not trap.
 *
 * The call is made here, in the handler of the signal, and so the child begins in it. Without CLONE_VM its stack is a
 * copy, and it returns from the handler as its parent does. With CLONE_VM it may not touch its parent's stack: the
 * program's registers are put where the child alone looks (struct resume), and from there it goes on behind the
 * program's own call, as if the handler had never been.
 *
 * The child of a vfork (CLONE_VM | CLONE_VFORK) may well use the stack that the handler runs on: the signal stack,
 * which is the same for both, or where it has none of its own that of its parent, which stands below where the child
 * goes on. So the parent puts that part of the stack aside before, and back again when it runs again.
 *
 * All signals are blocked meanwhile, but for those of ours: none finds a stack that is not whole, or a handler that
 * should be gone.
 */
#include "cpus.h"

#define CLONE_NEWTIME 0x80ull
#define CLONE_VM 0x100ull
#define CLONE_SIGHAND 0x800ull
#define CLONE_VFORK 0x4000ull
#define CLONE_CLEAR_SIGHAND 0x100000000ull

#define SIG_SETMASK 2
#define SIG_IGN 1
#define SIGNALS 64

/* struct clone_args of <linux/sched.h>, version 2 */
struct clone_args {
	u64 flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size, cgroup;
};
#define LEAST_SIZE 64
#define MOST_SIZE 4096

/* The state that a child with CLONE_VM goes on with; clone_apart reads it, and begins its stack under it. */
struct resume {
	u64 r8, r9, r10, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx; /* in this order */
	u64 rip, eflags, rsp, fp_control; /* x87's control word, and MXCSR above it */
	u64 mask;
	u64 clear; /* CLONE_CLEAR_SIGHAND was asked for */
	u64 bound, unused;
	struct cpu_set cpus; /* those that it may use, if it is bound */
};

/*
 * Memory of its own for a vfork: the part of the stack that is put aside, and at the end, with room for a stack, struct
 * resume.
 */
struct aside {
	u64 end; /* of that part of the stack, which begins where clone_apart stands */
	u8 bytes[0x4000 - 8];
	u8 stack[0x4000 - sizeof(struct resume)];
	struct resume resume;
};

/* A call that makes a child, as the kernel gets it. */
struct birth {
	u64 nr, a[5];
};

/*
 * Makes the call, of which the child goes on with `resume`. If `aside` is not 0, the stack up to aside->end is put
 * aside. The parent's result; the child does not return.
 */
long clone_apart(const struct birth *birth, const struct resume *resume, struct aside *aside);
__asm__(".text\n"
	".hidden clone_apart\n"
	".globl clone_apart\n"
	".type clone_apart, @function\n"
	"clone_apart:\n"
	"	push %rbx\n"
	"	push %rbp\n"
	"	mov %rdi, %r8\n"
	"	mov %rsi, %rbx\n"
	"	mov %rdx, %rbp\n"
	"	test %rbp, %rbp\n"
	"	jz 1f\n"
	"	mov (%rbp), %rcx\n"
	"	sub %rsp, %rcx\n"
	"	mov %rsp, %rsi\n"
	"	lea 8(%rbp), %rdi\n"
	"	rep movsb\n"
	"1:	mov (%r8), %rax\n"
	"	mov 8(%r8), %rdi\n"
	"	mov 16(%r8), %rsi\n"
	"	mov 24(%r8), %rdx\n"
	"	mov 32(%r8), %r10\n"
	"	mov 40(%r8), %r8\n"
	"	syscall\n"
	"	test %rax, %rax\n"
	"	jz 3f\n"
	"	test %rbp, %rbp\n" /* the stack may be the child's work: only registers until it is back */
	"	jz 2f\n"
	"	mov (%rbp), %rcx\n"
	"	sub %rsp, %rcx\n"
	"	lea 8(%rbp), %rsi\n"
	"	mov %rsp, %rdi\n"
	"	rep movsb\n"
	"2:	pop %rbp\n"
	"	pop %rbx\n"
	"	ret\n"
	"3:	mov %rbx, %rsp\n"
	"	xor %ebp, %ebp\n"
	"	mov %rbx, %rdi\n"
	"	call begin_child\n"
	"	fldcw 120(%rbx)\n"
	"	ldmxcsr 124(%rbx)\n"
	"	push 104(%rbx)\n" /* eflags */
	"	popfq\n"
	"	mov %rbx, %rax\n"
	"	mov (%rax), %r8\n"
	"	mov 8(%rax), %r9\n"
	"	mov 16(%rax), %r10\n"
	"	mov 24(%rax), %r12\n"
	"	mov 32(%rax), %r13\n"
	"	mov 40(%rax), %r14\n"
	"	mov 48(%rax), %r15\n"
	"	mov 56(%rax), %rdi\n"
	"	mov 64(%rax), %rsi\n"
	"	mov 72(%rax), %rbp\n"
	"	mov 80(%rax), %rbx\n"
	"	mov 88(%rax), %rdx\n"
	"	mov 96(%rax), %rcx\n" /* as a call leaves them: where it returns to, and the flags */
	"	mov 104(%rax), %r11\n"
	"	mov 112(%rax), %rsp\n"
	"	mov $0, %eax\n" /* which leaves the flags alone */
	"	jmp *%rcx\n");
_Static_assert(offsetof(struct resume, rip) == 96 && offsetof(struct resume, eflags) == 104 &&
		       offsetof(struct resume, rsp) == 112 && offsetof(struct resume, fp_control) == 120,
	       "clone_apart says where");
_Static_assert(sizeof(struct resume) % 16 == 0 && sizeof(struct aside) % 16 == 0, "the child's stack is aligned");

/* Carries out CLONE_CLEAR_SIGHAND as the kernel does: signals that are not ignored get the default. */
static void clear_handlers(void)
{
	struct kernel_sigaction action;
	for (i32 sig = 1; sig <= SIGNALS; sig++) {
		if (MASK_OF(sig) & our_signals()) {
			clear_own_action(sig);
		} else if (syscall(__NR_rt_sigaction, sig, 0, &action, 8) == 0 && (action.handler || action.flags || action.mask)) {
			action = (struct kernel_sigaction){ .handler = action.handler == SIG_IGN ? SIG_IGN : 0 };
			syscall(__NR_rt_sigaction, sig, &action, 0, 8);
		}
	}
}

/* On the child's own stack, before the program's next instruction. */
__attribute__((used, visibility("hidden"))) void begin_child(const struct resume *resume)
{
	if (resume->clear)
		clear_handlers();
	if (resume->bound)
		bind_thread(&resume->cpus);
	syscall(__NR_rt_sigprocmask, SIG_SETMASK, &resume->mask, 0, 8);
}

/* 0, and the arguments as the kernel would read them, as far as we know them. */
static long read_args(struct clone_args *args, u64 from, u64 size)
{
	if (size > MOST_SIZE)
		return -E2BIG;
	if (size < LEAST_SIZE)
		return -EINVAL;
	*args = (struct clone_args){ 0 };
	if (!is_readable(from, size) || !read_user(args, from, size < sizeof *args ? size : sizeof *args))
		return -EFAULT;
	/* Fields that are new to us must be 0. */
	for (u64 i = sizeof *args; i < size; i++)
		if (*(const u8 *)(from + i))
			return -E2BIG;
	return 0;
}

/* Where the frame of the signal ends: with the state of the floating point unit, which tells its own length. */
static u64 end_of_frame(const struct ucontext *u)
{
	const u32 *tells = (const u32 *)(u->fpstate + 464);
	return u->fpstate + (tells[0] == 0x46505853 /* FP_XSTATE_MAGIC1 */ ? tells[1] : 512);
}

static void fill(struct resume *resume, const struct ucontext *u, u64 rsp, bool clear)
{
	*resume = (struct resume){
		.r8 = u->r8, .r9 = u->r9, .r10 = u->r10, .r12 = u->r12, .r13 = u->r13, .r14 = u->r14, .r15 = u->r15,
		.rdi = u->rdi, .rsi = u->rsi, .rbp = u->rbp, .rbx = u->rbx, .rdx = u->rdx,
		.rip = u->rip, .eflags = u->eflags, .rsp = rsp,
		.fp_control = *(const u16 *)u->fpstate | (u64)*(const u32 *)(u->fpstate + 24) << 32,
		.mask = u->sigmask, .clear = clear,
	};
}

/* With CLONE_VM. `stack` is where the child's begins, or 0 if it has none of its own. */
static long sharing_memory(const struct birth *birth, bool vfork, struct ucontext *u, u64 stack, bool clear)
{
	struct aside *aside = 0;
	struct resume resume;
	fill(&resume, u, stack ? stack : u->rsp, clear);
	if (STATE->bound) {
		resume.bound = true;
		resume.cpus = cpus_of((i32)syscall(__NR_gettid));
	}
	/* Both on one stack at once cannot be meant. */
	if (!stack && !vfork)
		return -EINVAL;
	if (vfork) {
		long made = syscall(__NR_mmap, 0, sizeof *aside, 3 /* READ | WRITE */, 0x22 /* PRIVATE | ANONYMOUS */, -1, 0);
		if (made < 0 && made > -4096)
			return -ENOMEM;
		aside = (struct aside *)made;
		aside->end = end_of_frame(u);
		/* Of what is here, little more than the frame itself is. */
		if (aside->end - (u64)__builtin_frame_address(0) + 1024 > sizeof aside->bytes) {
			syscall(__NR_munmap, aside, sizeof *aside);
			return -ENOMEM;
		}
	}
	u64 at = (u64)&aside->resume;
	long result = -EFAULT;
	if (stack)
		at = (stack - sizeof resume) & ~15ull;
	if (write_user(at, &resume, sizeof resume))
		result = clone_apart(birth, (const struct resume *)at, aside);
	if (aside)
		syscall(__NR_munmap, aside, sizeof *aside);
	return result;
}

/* Without CLONE_VM: the child has a copy of this very stack, and returns from here, too. */
static long copying_memory(const struct birth *birth, struct ucontext *u, u64 stack, bool clear)
{
	struct cpu_set cpus;
	if (STATE->bound)
		cpus = cpus_of((i32)syscall(__NR_gettid));
	long result = syscall(birth->nr, birth->a[0], birth->a[1], birth->a[2], birth->a[3], birth->a[4]);
	if (result == 0) {
		if (stack)
			u->rsp = stack;
		if (clear)
			clear_handlers();
		if (STATE->bound)
			bind_thread(&cpus);
	}
	return result;
}

long call_clone3(struct call *c)
{
	struct clone_args args;
	struct ucontext *u = c->context;
	u64 size = c->a[1], blocked = ~our_signals();
	long wrong = read_args(&args, c->a[0], size);
	if (wrong)
		return wrong;
	/* As a kernel says that has no time namespaces: their offsets would be taken for virtual time. */
	if (args.flags & CLONE_NEWTIME)
		return -EINVAL;
	/* With both, the kernel says no. */
	bool clear = (args.flags & CLONE_CLEAR_SIGHAND) && !(args.flags & CLONE_SIGHAND);
	if (clear)
		args.flags &= ~CLONE_CLEAR_SIGHAND;
	if (size > sizeof args)
		size = sizeof args;
	/* One without the other is wrong, which the kernel says. */
	u64 stack = args.stack && args.stack_size ? args.stack + args.stack_size : 0;
	syscall(__NR_rt_sigprocmask, SIG_SETMASK, &blocked, 0, 8);
	struct birth birth = { __NR_clone3, { (u64)&args, size } };
	if (args.flags & CLONE_VM)
		return sharing_memory(&birth, args.flags & CLONE_VFORK, u, stack, clear);
	if (stack)
		args.stack = args.stack_size = 0;
	return copying_memory(&birth, u, stack, clear);
}

/* clone(flags, stack, parent_tid, child_tid, tls), fork(), vfork() */
long call_clone(struct call *c)
{
	struct birth birth = { __NR_clone, { c->a[0], c->a[1], c->a[2], c->a[3], c->a[4] } };
	if (c->nr != __NR_clone)
		birth = (struct birth){ __NR_clone, { (c->nr == __NR_vfork ? CLONE_VM | CLONE_VFORK : 0) | SIGCHLD } };
	u64 flags = birth.a[0], stack = birth.a[1], blocked = ~our_signals();
	syscall(__NR_rt_sigprocmask, SIG_SETMASK, &blocked, 0, 8);
	if (flags & CLONE_VM)
		return sharing_memory(&birth, flags & CLONE_VFORK, c->context, stack, false);
	birth.a[1] = 0;
	return copying_memory(&birth, c->context, stack, false);
}
