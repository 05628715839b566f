/*
 * SECCOMP_MODE_STRICT, and time namespaces. The output must be the same natively and dilated; with "namespaces" it
 * tells what is refused dilated.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

static struct timespec t = { 0, 1000000 };

static void allowed(void)
{
	char line[] = "still writes\n";
	syscall(SYS_write, 1, line, sizeof line - 1);
	syscall(SYS_exit, 7);
}
static void asks(void) { syscall(SYS_getpid); }
static void opens(void) { syscall(SYS_openat, AT_FDCWD, "/", O_RDONLY, 0); }
static void naps(void) { syscall(SYS_nanosleep, &t, 0); }
static void reads_a_clock(void) { syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t); }
static void blocks(void) { syscall(SYS_rt_sigprocmask, SIG_BLOCK, &(long){ 0 }, 0, 8); }
static void executes(void) { syscall(SYS_execve, "/bin/true", 0, 0); }
static void forks(void) { syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); }
static void threads(void) { syscall(SYS_clone3, 0, 88); }
static void ends_all(void) { syscall(SYS_exit_group, 0); }
static void returns(void) { syscall(SYS_kill, 0, 0); }

static void attempt(const char *name, int by_prctl, void (*does)(void))
{
	int status = 0;
	printf("%s: ", name);
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		if (by_prctl ? prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) : syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, 0))
			_exit(1);
		does();
		syscall(SYS_exit, 5);
	}
	waitpid(pid, &status, 0);
	printf("exit %d, signal %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1,
	       WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "namespaces")) {
		struct clone_args a = { .flags = CLONE_NEWTIME, .exit_signal = SIGCHLD };
		int first = unshare(CLONE_NEWTIME) ? errno : 0, both = unshare(CLONE_NEWTIME | CLONE_FS) ? errno : 0;
		long pid = syscall(SYS_clone3, &a, sizeof a);
		if (pid == 0)
			_exit(0);
		printf("%d %d %d, %d\n", first, both, pid < 0 ? errno : 0, unshare(CLONE_FS) ? errno : 0);
		static char selector;
		printf("%d\n", prctl(59 /* PR_SET_SYSCALL_USER_DISPATCH */, 1, 0, 0, &selector) ? errno : 0);
		return 0;
	}
	static const struct {
		const char *name;
		void (*does)(void);
	} all[] = { { "write and exit", allowed }, { "getpid", asks }, { "open", opens }, { "nanosleep", naps },
		    { "clock_gettime", reads_a_clock }, { "sigprocmask", blocks }, { "execve", executes }, { "clone", forks },
		    { "clone3", threads }, { "exit_group", ends_all }, { "kill", returns } };
	for (int by_prctl = 0; by_prctl < 2; by_prctl++)
		for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
			attempt(all[i].name, by_prctl, all[i].does);
	printf("flags: %d\n", syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 1, 0) ? errno : 0);
	printf("argument: %d\n", syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, &t) ? errno : 0);
	printf("no such mode: %d\n", prctl(PR_SET_SECCOMP, 99) ? errno : 0);
	printf("a name: %d\n", prctl(PR_SET_NAME, "strict") ? errno : 0);
	return 0;
}
