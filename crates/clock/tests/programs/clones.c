/*
 * Ways to start a process or a thread, each with a nap of 20 ms in it: by the parent's clock it must be 20 ms. Lines
 * "NAME ELAPSED NOMINAL", ns. With the argument "nap" it only naps.
 */
#define _GNU_SOURCE
#include <linux/sched.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NAP 20000000ll
#define STACK 65536

extern char **environ;
static char *argv[] = { 0, "nap", 0 };

static long long now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static int nap(void *unused)
{
	(void)unused;
	struct timespec t = { 0, NAP };
	return nanosleep(&t, 0);
}

static int ended(pid_t pid)
{
	int status;
	return waitpid(pid, &status, __WALL) == pid && status == 0;
}

static int run(void *unused)
{
	(void)unused;
	execve(argv[0], argv, environ);
	_exit(9);
}

static char *stack(void)
{
	return (char *)mmap(0, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) + STACK;
}

static int forked(void)
{
	pid_t pid = fork();
	if (pid == 0)
		_exit(nap(0));
	return ended(pid);
}
static int vforked_and_executed(void)
{
	pid_t pid = vfork();
	if (pid == 0) {
		execve(argv[0], argv, environ);
		_exit(9);
	}
	return ended(pid);
}
/* It naps in its parent's memory, and the parent waits for that. */
static int vforked(void) { return ended(clone(nap, stack(), CLONE_VM | CLONE_VFORK | SIGCHLD, 0)); }
static int spawned(void)
{
	pid_t pid;
	return posix_spawn(&pid, argv[0], 0, 0, argv, environ) == 0 && ended(pid);
}
static int spawned_along_path(void)
{
	pid_t pid;
	char *sleep[] = { "sleep", "0.02", 0 };
	return posix_spawnp(&pid, sleep[0], 0, 0, sleep, environ) == 0 && ended(pid);
}
static int sharing_memory(void) { return ended(clone(nap, stack(), CLONE_VM | SIGCHLD, 0)); }
static int sharing_all(void)
{
	return ended(clone(nap, stack(), CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | SIGCHLD, 0));
}
static int silent(void) { return ended(clone(nap, stack(), 0, 0)); }
static int executed_in_shared_memory(void) { return ended(clone(run, stack(), CLONE_VM | SIGCHLD, 0)); }
static int raw_fork(void)
{
	pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (pid == 0)
		_exit(nap(0));
	return ended(pid);
}
static int clone3_or_clone(void)
{
	struct clone_args a = { .exit_signal = SIGCHLD };
	pid_t pid = (pid_t)syscall(SYS_clone3, &a, sizeof a);
	if (pid < 0)
		return raw_fork();
	if (pid == 0)
		_exit(nap(0));
	return ended(pid);
}
static int daemonised(void)
{
	int ends[2];
	char byte;
	if (pipe(ends))
		return 0;
	pid_t pid = fork();
	if (pid == 0) {
		setsid();
		if (fork() == 0)
			_exit(nap(0) || write(ends[1], "x", 1) != 1);
		_exit(0);
	}
	return ended(pid) && read(ends[0], &byte, 1) == 1;
}
static void *in_thread(void *how)
{
	return ((int (*)(void))how)() ? how : 0;
}
static int from_a_thread(void)
{
	pthread_t t;
	void *good;
	return pthread_create(&t, 0, in_thread, spawned) == 0 && pthread_join(t, &good) == 0 && good;
}
static int deep(void)
{
	pid_t pid = fork();
	if (pid == 0) {
		for (int i = 0; i < 20; i++)
			if ((pid = fork()) != 0)
				_exit(!ended(pid));
		_exit(nap(0));
	}
	return ended(pid);
}
static int script(void) { return system("exec sleep 0.02") == 0; }
static int by_descriptor(void)
{
	pid_t pid = fork();
	if (pid == 0) {
		FILE *self = fopen(argv[0], "re");
		fexecve(fileno(self), argv, environ);
		_exit(9);
	}
	return ended(pid);
}

static const struct {
	const char *name;
	int (*go)(void);
} ways[] = { { "fork", forked }, { "vfork-exec", vforked_and_executed }, { "vfork", vforked },
	     { "posix_spawn", spawned }, { "posix_spawnp", spawned_along_path }, { "CLONE_VM", sharing_memory },
	     { "CLONE_SIGHAND", sharing_all }, { "no-exit-signal", silent }, { "CLONE_VM-exec", executed_in_shared_memory },
	     { "clone", raw_fork }, { "clone3", clone3_or_clone }, { "daemon", daemonised },
	     { "thread", from_a_thread }, { "twenty-deep", deep },
	     { "system", script }, { "fexecve", by_descriptor } };

int main(int argc, char **arguments)
{
	if (argc > 1 && strcmp(arguments[1], "nap") == 0)
		return nap(0);
	argv[0] = "/proc/self/exe";
	char self[4096];
	ssize_t n = readlink(argv[0], self, sizeof self - 1);
	if (n < 0)
		return 2;
	self[n] = 0;
	argv[0] = self;
	setvbuf(stdout, 0, _IOLBF, 0);
	for (unsigned i = 0; i < sizeof ways / sizeof *ways; i++) {
		long long start = now();
		if (!ways[i].go()) {
			printf("%s fails\n", ways[i].name);
			return 1;
		}
		printf("%s %lld %lld\n", ways[i].name, now() - start, NAP);
	}
	return 0;
}
