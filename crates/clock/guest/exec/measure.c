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

/* WHAT N: the operation and how often; for exec the program is /proc/self/exe --measure none 0, else WHAT is a path. */
int measure(char **argv, char **envp, u64 *auxv)
{
	clock_fn real = real_clock(auxv), virt = virtual_clock(auxv);
	const char *what = argv[0];
	u64 n = parse(argv[1]);
	struct timespec t;
	u32 word = 0;
	if (same(what, "none"))
		return 0;
	if (!real || !virt) {
		say("diorama: this process has no vDSO clock to measure with\n");
		return EXIT_OWN;
	}
	bool filtered = same(what, "filtered");
	if (filtered && !filter_nothing())
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
	} else if (same(what, "trapped")) {
		for (u64 i = 0; i < n; i++)
			syscall(__NR_clock_gettime, CLOCK_MONOTONIC, &t);
	} else {
		char *self[] = { "/proc/self/exe", "--measure", "none", "0", 0 };
		char *other[] = { argv[0], 0 };
		for (u64 i = 0; i < n; i++)
			if (execute_and_wait(same(what, "static") ? self : other, envp) != 0) {
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
