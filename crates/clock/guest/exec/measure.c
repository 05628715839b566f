/*
 * What an operation costs, in real time, native or dilated: writes ns per operation, times 100.
 * The real clock is read through the kernel's vDSO, whose address a dilated process finds in its state page.
 */
#include "exec.h"

#include <linux/filter.h>
#include <linux/seccomp.h>

#define FUTEX_WAKE_PRIVATE 129

static u64 read_clock(clock_fn clock)
{
	struct timespec t;
	clock(CLOCK_MONOTONIC, &t);
	return (u64)t.sec * NS + (u64)t.nsec;
}

/* A filter that lets everything pass: what any filter at all costs. */
static bool filter_nothing(void)
{
	struct sock_filter allow = { BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW };
	struct sock_fprog program = { 1, &allow };
	return !syscall(__NR_prctl, 38 /* PR_SET_NO_NEW_PRIVS */, 1) &&
	       !syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, &program);
}

static void nothing(i32 sig, struct siginfo *info, struct ucontext *u)
{
	(void)sig;
	(void)info;
	u->rax = 0;
}

/* The kernel's own restorer would be libc's. */
__asm__(".text\n"
	"back:\n"
	"	mov $15, %eax\n"
	"	syscall\n");
extern char back[];

/* Dilation's filter with a handler that does nothing: what any trap at all costs. */
static bool trap_nothing(void)
{
	struct kernel_sigaction action = { (u64)nothing, 4 | 0x04000000 | 0x40000000 /* SIGINFO | RESTORER | NODEFER */,
					   (u64)back, 0 };
	return !syscall(__NR_rt_sigaction, SIGSYS, &action, 0, 8) && !syscall(__NR_prctl, 38 /* PR_SET_NO_NEW_PRIVS */, 1) &&
	       install_filter(false) >= 0;
}

/* vfork, written out: the child shares this stack, so only its return value may differ. */
static __attribute__((noinline)) long execute_and_wait(char **argv, char **envp)
{
	long pid;
	__asm__ volatile("syscall" : "=a"(pid) : "a"(__NR_vfork) : "rcx", "r11", "memory");
	if (pid == 0) {
		syscall(__NR_execve, argv[0], argv, envp);
		syscall(__NR_exit, EXIT_OWN);
	}
	i32 status = 0;
	if (pid < 0 || syscall(__NR_wait4, pid, &status, 0, 0) < 0)
		return -1;
	return status;
}

/* stat(path, result), by the two instructions of every C library, within eight bytes that are changed at once. */
__asm__(".text\n"
	".balign 8\n"
	"stat_of_library:\n"
	"	mov $" NUMBER(__NR_stat) ", %eax\n"
	"	syscall\n"
	"	ret\n");
long stat_of_library(const char *path, void *result);

#define AT_ONCE 32

/* So many processes at once, each of which executes again and again. */
static bool execute_at_once(u64 n, char **argv, char **envp)
{
	for (int i = 0; i < AT_ONCE; i++) {
		long pid = syscall(__NR_fork);
		if (pid < 0)
			return false;
		if (pid == 0) {
			bool good = true;
			for (u64 j = 0; j < n / AT_ONCE; j++)
				good = execute_and_wait(argv, envp) == 0 && good;
			syscall(__NR_exit_group, good ? 0 : EXIT_OWN);
		}
	}
	bool good = true;
	for (int i = 0; i < AT_ONCE; i++) {
		i32 status = -1;
		good = syscall(__NR_wait4, -1, &status, 0, 0) > 0 && status == 0 && good;
	}
	return good;
}

/* WHAT N: the operation and how often; for exec the program is /proc/self/exe --measure none 0, else WHAT is a path. */
int measure(char **argv, char **envp, u64 *auxv)
{
	clock_fn real = real_clock(auxv), virt = virtual_clock(auxv);
	const char *what = argv[0];
	u64 n = parse(argv[1]);
	struct timespec t;
	u32 word = 0;
	u64 stat[18]; /* struct stat */
	if (same(what, "none"))
		return 0;
	if (!real || !virt) {
		say("diorama: this process has no vDSO clock to measure with\n");
		return EXIT_OWN;
	}
	bool filtered = same(what, "filtered"), handled = same(what, "handled");
	if ((filtered && !filter_nothing()) || (handled && !trap_nothing()))
		return EXIT_OWN;
	u64 start = read_clock(real);
	if (same(what, "clock")) {
		for (u64 i = 0; i < n; i++)
			virt(CLOCK_MONOTONIC, &t);
	} else if (filtered || same(what, "untrapped")) {
		for (u64 i = 0; i < n; i++)
			syscall(__NR_getppid);
	} else if (same(what, "checked")) {
		for (u64 i = 0; i < n; i++)
			syscall(__NR_futex, &word, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
	} else if (same(what, "site")) {
		/* As a C library calls it: the image answers it without a trap (sites.c). */
		for (u64 i = 0; i < n; i++)
			stat_of_library("/", &stat);
	} else if (handled || same(what, "trapped")) {
		for (u64 i = 0; i < n; i++)
			syscall(__NR_clock_gettime, CLOCK_MONOTONIC, &t);
	} else {
		char *self[] = { "/proc/self/exe", "--measure", "none", "0", 0 };
		char *other[] = { argv[0], 0 };
		bool good = true;
		if (same(what, "at-once"))
			good = execute_at_once(n, self, envp);
		else
			for (u64 i = 0; good && i < n; i++)
				good = execute_and_wait(same(what, "static") ? self : other, envp) == 0;
		if (!good) {
			say("diorama: the program to measure failed\n");
			return EXIT_OWN;
		}
	}
	u64 took = read_clock(real) - start;
	char line[32], *end = line + sizeof line, *at = end;
	*--at = '\n';
	at = decimal(at, n ? took * 100 / n : 0);
	return syscall(__NR_write, 1, at, end - at) == end - at ? 0 : EXIT_OWN;
}
