/* From the bootstrap to the program's first instruction. */
#include "cpus.h"

#define AT_BASE 7
#define AT_EXECFN 31
#define AT_HWCAP2 26
#define SA_SIGINFO 4ull
#define SA_RESTORER 0x04000000ull
#define SA_ONSTACK 0x08000000ull
#define SA_RESTART 0x10000000ull
#define SA_NODEFER 0x40000000ull

/*
 * Entered from bootstrap.S with the memfd in r8 and the parameters in r12; leaves every register as the kernel had set
 * it: 0, but for the stack.
 */
__asm__(".text\n"
	".globl dilation_entry\n"
	".hidden dilation_entry\n"
	"dilation_entry:\n"
	"	mov %rsp, %rbx\n"
	"	mov %rsp, %rdi\n"
	"	mov %r8d, %esi\n"
	"	mov %r12, %rdx\n"
	"	and $-16, %rsp\n"
	"	call dilation_init\n"
	"	mov %rbx, %rsp\n"
	"	xor %ebx, %ebx\n"
	"	xor %ecx, %ecx\n"
	"	xor %edx, %edx\n"
	"	xor %esi, %esi\n"
	"	xor %edi, %edi\n"
	"	xor %ebp, %ebp\n"
	"	xor %r8d, %r8d\n"
	"	xor %r9d, %r9d\n"
	"	xor %r10d, %r10d\n"
	"	xor %r12d, %r12d\n"
	"	xor %r13d, %r13d\n"
	"	xor %r14d, %r14d\n"
	"	xor %r15d, %r15d\n"
	"	xor %r11d, %r11d\n"
	"	xor %eax, %eax\n"
	"	jmp *state_entry(%rip)\n"); /* STATE->given.entry, by the linker script */

static __attribute__((noreturn)) void fail(void)
{
	static const char says[] = "diorama: the clock could not be set up in this process\n";
	syscall(__NR_write, 2, says, sizeof says - 1);
	for (;;)
		syscall(__NR_exit_group, 125);
}

__attribute__((used, visibility("hidden"))) void dilation_init(u64 *stack, i32 memfd, const struct parameters *given)
{
	long state = syscall(__NR_mmap, DIORAMA_STATE, DIORAMA_STATE_SIZE, 3 /* READ | WRITE */,
			     0x100022 /* PRIVATE | ANONYMOUS | NOREPLACE */, -1, 0);
	syscall(__NR_close, memfd);
	if (state != (long)DIORAMA_STATE)
		fail();
	copy(&STATE->given, given, sizeof *given);
	if (given->node_clock) {
		long clock = syscall(__NR_mmap, DIORAMA_NODE_CLOCK, DIORAMA_PAGE_SIZE, 1 /* READ */,
				     0x100001 /* SHARED | NOREPLACE */, given->node_clock - 1, 0);
		syscall(__NR_close, given->node_clock - 1);
		if (clock != (long)DIORAMA_NODE_CLOCK)
			fail();
		STATE->node_clock = DIORAMA_NODE_CLOCK;
	}
	/* Where it makes a system call for every reading, that call is better made at once; where rdtsc faults, it must be. */
	if (!PAGE->kernel_vdso_is_slow && !given->tsc_cycles)
		STATE->fast_clock_gettime = given->vdso_clock_gettime;

	/* By binfmt_misc, the interpreter's name is not where the path of what was executed is. */
	if (stack[0])
		find_machine((const char *)stack[1]);
	/* argc, argv, NULL, envp, NULL, auxv */
	u64 *p = stack + 1 + stack[0] + 1;
	while (*p)
		p++;
	show_vector(++p, ~0ull);
	for (; *p != AT_NULL; p += 2)
		if (*p == AT_HWCAP2)
			STATE->has_fsgsbase = p[1] >> 1 & 1;
		else if (*p == AT_BASE)
			STATE->has_libc = p[1] != 0;
		else if (*p == AT_EXECFN)
			find_machine((const char *)p[1]);

	struct kernel_sigaction action = {
		.handler = (u64)on_sigsys,
		/* SA_RESTART says nothing about SIGSYS itself, whose call was never made. */
		.flags = SA_SIGINFO | SA_RESTORER | SA_ONSTACK | SA_NODEFER | SA_RESTART,
		.restorer = (u64)restorer,
		.mask = 0,
	};
	if (syscall(__NR_rt_sigaction, SIGSYS, &action, 0, 8))
		fail();
	if (given->tsc_cycles) {
		action.handler = (u64)on_sigsegv;
		if (syscall(__NR_rt_sigaction, SIGSEGV, &action, 0, 8) ||
		    syscall(__NR_prctl, 26 /* PR_SET_TSC */, 2 /* PR_TSC_SIGSEGV */))
			fail();
	}
	if (given->cpus)
		inherit_cpus(given->affinity);
	find_filters();
	/* Whoever started the program may have blocked them. */
	u64 ours = our_signals();
	syscall(__NR_rt_sigprocmask, 1 /* SIG_UNBLOCK */, &ours, 0, 8);
	_Static_assert(offsetof(struct state, given.entry) == 40, "vdso.lds says where");
	_Static_assert(DIORAMA_STATE + sizeof(struct state) <= DIORAMA_SITE_TABLE, "then comes the table of sites,");
	_Static_assert(DIORAMA_SITE_TABLE + DIORAMA_SITES * DIORAMA_SITE_SIZE <= DIORAMA_SCRATCH, "then the injector's part");
	_Static_assert(sizeof(struct site) == DIORAMA_SITE_SIZE, "sites.c counts in these");
}
