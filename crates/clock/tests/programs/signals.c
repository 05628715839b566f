/* Signals against the SIGSYS handler. The output must be the same natively and dilated. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;
static volatile sig_atomic_t seen, code;
static sigjmp_buf jump;

static void note(int sig, siginfo_t *info, void *context)
{
	(void)context;
	seen = sig;
	code = info->si_code;
}

static void leap(int sig)
{
	(void)sig;
	siglongjmp(jump, 1);
}

static void raw_clock(void)
{
	struct timespec t;
	if (syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t))
		puts("clock_gettime fails");
}

static void handle(int sig, void (*action)(int, siginfo_t *, void *), int flags)
{
	struct sigaction a = { .sa_sigaction = action, .sa_flags = SA_SIGINFO | flags };
	sigfillset(&a.sa_mask);
	sigaction(sig, &a, 0);
}

static void alarm_in_ms(int ms)
{
	struct itimerval it = { { 0, 0 }, { 0, ms * 1000 } };
	setitimer(ITIMER_REAL, &it, 0);
}

static const char *child(void (*f)(void))
{
	static char says[64];
	int status = 0;
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		f();
		_exit(0);
	}
	waitpid(pid, &status, 0);
	snprintf(says, sizeof says, "exit %d signal %d", WEXITSTATUS(status), WIFSIGNALED(status) ? WTERMSIG(status) : 0);
	return says;
}

static void raise_sigsys(void)
{
	signal(SIGSYS, SIG_DFL);
	raise(SIGSYS);
}

static void ignore_sigsys(void)
{
	signal(SIGSYS, SIG_IGN);
	raise(SIGSYS);
	_exit(signal(SIGSYS, SIG_DFL) == SIG_IGN ? 3 : 4);
}

static void own_filter(void)
{
	struct sock_filter f[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP | 7),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog p = { 4, f };
	handle(SIGSYS, note, 0);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &p))
		_exit(9);
	seen = 0;
	syscall(SYS_getppid);
	raw_clock();
	_exit(seen == SIGSYS && code == 1 ? 5 : 6);
}

static void *cancelled(void *arg)
{
	struct timespec t = { 100, 0 };
	pthread_cleanup_push(free, arg);
	nanosleep(&t, 0);
	pthread_cleanup_pop(1);
	return 0;
}

int main(void)
{
	sigset_t all, none, old;
	sigfillset(&all);
	sigemptyset(&none);
	struct timespec brief = { 0, 2000000 };

	sigprocmask(SIG_SETMASK, &all, 0);
	raw_clock();
	nanosleep(&brief, 0);
	ppoll(0, 0, &brief, &all);
	sigprocmask(SIG_SETMASK, &none, &old);
	printf("USR1 was blocked: %d\n", sigismember(&old, SIGUSR1));

	handle(SIGSYS, note, 0);
	kill(getpid(), SIGSYS);
	printf("own SIGSYS handler: %d, code %d\n", seen, code);
	struct sigaction a;
	sigaction(SIGSYS, 0, &a);
	printf("sigaction tells it: %d\n", a.sa_sigaction == note);
	raw_clock();
	printf("default: %s\n", child(raise_sigsys));
	printf("ignored: %s\n", child(ignore_sigsys));
	printf("own filter: %s\n", child(own_filter));

	/* A vfork child resets its actions; the parent's must stay. */
	posix_spawnattr_t attr;
	posix_spawnattr_init(&attr);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF);
	posix_spawnattr_setsigdefault(&attr, &all);
	char *argv[] = { "/bin/true", 0 };
	pid_t pid;
	int status = -1;
	int r = posix_spawn(&pid, argv[0], 0, &attr, argv, environ);
	waitpid(pid, &status, 0);
	seen = 0;
	kill(getpid(), SIGSYS);
	printf("posix_spawn %d %d; handler after it: %d\n", r, status, seen);
	printf("system: %d\n", system("exit 3") >> 8);
	printf("missing: %d\n", posix_spawn(&pid, "/nonexistent", 0, 0, argv, environ));

	handle(SIGALRM, note, SA_RESTART);
	seen = 0;
	alarm_in_ms(5);
	struct timespec longer = { 0, 500000000 };
	r = nanosleep(&longer, 0);
	printf("interrupted nanosleep: %d %d, signal %d\n", r, errno, seen);
	alarm_in_ms(5);
	r = poll(0, 0, 500);
	printf("interrupted poll: %d %d\n", r, errno);

	/* With the signal blocked but in the call's own mask, it comes in the call and not before or after. */
	sigset_t alarms;
	sigemptyset(&alarms);
	sigaddset(&alarms, SIGALRM);
	sigprocmask(SIG_BLOCK, &alarms, 0);
	seen = 0;
	raise(SIGALRM);
	printf("blocked: %d", seen);
	r = ppoll(0, 0, &longer, &none);
	printf(", in ppoll: %d %d, signal %d", r, errno, seen);
	sigprocmask(SIG_SETMASK, 0, &old);
	printf(", blocked again: %d\n", sigismember(&old, SIGALRM));
	seen = 0;
	raise(SIGALRM);
	sigsuspend(&none);
	printf("sigsuspend: signal %d\n", seen);
	sigprocmask(SIG_SETMASK, &none, 0);

	signal(SIGALRM, leap);
	for (int i = 0; i < 20; i++)
		if (sigsetjmp(jump, 1) == 0) {
			alarm_in_ms(2);
			for (;;)
				nanosleep(&longer, 0);
		}
	raw_clock();
	puts("20 longjmps out of a sleep");

	stack_t stack = { malloc(16384), 0, 16384 };
	sigaltstack(&stack, 0);
	handle(SIGALRM, note, SA_ONSTACK);
	seen = 0;
	alarm_in_ms(2);
	nanosleep(&longer, 0);
	raw_clock();
	printf("alternate stack: signal %d\n", seen);

	pthread_t t;
	pthread_create(&t, 0, cancelled, malloc(1));
	nanosleep(&brief, 0);
	pthread_cancel(t);
	void *result;
	pthread_join(t, &result);
	printf("cancelled: %d\n", result == PTHREAD_CANCELED);
	return 0;
}
