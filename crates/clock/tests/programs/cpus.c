/*
 * CPUs as a program sees them: cpus N, on a machine with CPUs 0 to N-1. What it prints does not depend on where its
 * threads run, so a machine of N CPUs gives the same natively.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static int cpus;
static char *self, *count;

static void show(const char *who, int tid)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	long got = syscall(SYS_sched_getaffinity, tid, sizeof set, &set);
	printf("%s:", who);
	if (got < 0)
		printf(" %s", strerror(errno));
	for (int i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &set))
			printf(" %d", i);
	printf("\n");
	fflush(stdout);
}

static int bind_to(int tid, int cpu)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(tid, sizeof set, &set);
}

static void error(const char *what, long result)
{
	printf("%s: %s\n", what, result < 0 ? strerror(errno) : "done");
}

/* By the call and by the C library, which asks the vDSO. */
static int where(void)
{
	unsigned cpu = -1, node = -1;
	if (syscall(SYS_getcpu, &cpu, &node, 0) || node)
		return -1;
	int other = sched_getcpu();
	return cpu < (unsigned)cpus ? other : -2;
}

static void show_status(const char *path)
{
	char line[512];
	FILE *file = fopen(path, "r");
	while (file && fgets(line, sizeof line, file))
		if (!strncmp(line, "Cpus_allowed", 12))
			printf("%s", line);
	if (file)
		fclose(file);
}

/* The 39th field: the CPU on which it ran last. */
static int of_stat(void)
{
	char text[1024] = "";
	FILE *file = fopen("/proc/thread-self/stat", "r");
	size_t len = fread(text, 1, sizeof text - 1, file);
	fclose(file);
	text[len] = 0;
	char *at = strrchr(text, ')');
	for (int field = 2; at && field < 39; field++)
		at = strchr(at + 1, ' ');
	return at ? atoi(at) : -1;
}

static void *shown(void *who)
{
	show(who, 0);
	return 0;
}

static void in_thread(void *who)
{
	pthread_t thread;
	pthread_create(&thread, 0, shown, who);
	pthread_join(thread, 0);
}

static void executed(char *who)
{
	pid_t child;
	char *argv[] = { self, count, who, 0 };
	if (posix_spawn(&child, "/proc/self/exe", 0, 0, argv, environ))
		printf("%s: not started\n", who);
	else
		waitpid(child, 0, 0);
}

static void *worker(void *unused)
{
	(void)unused;
	show("worker, begun", 0);
	error("worker to the first", bind_to(0, 0));
	show("worker", 0);
	in_thread("its thread");
	if (!fork()) {
		show("its child", 0);
		in_thread("its child's thread");
		exit(0);
	}
	wait(0);
	executed("its program");
	return 0;
}

static void *waits(void *gate)
{
	pthread_mutex_lock(gate);
	pthread_mutex_unlock(gate);
	show("bound by another", 0);
	return 0;
}

int main(int argc, char **argv)
{
	self = argv[0];
	count = argv[1];
	cpus = atoi(count);
	if (argc > 2) {
		show(argv[2], 0);
		show_status("/proc/self/status");
		return 0;
	}
	int last = cpus - 1;
	unsigned long words[16];
	long bytes = syscall(SYS_sched_getaffinity, 0, sizeof words, words);
	printf("words: %d\n", bytes % 8 == 0 && bytes * 8 >= cpus);
	show("all", 0);
	show("by its number", getpid());
	for (int i = 0; i < 1000; i++)
		if (where() < 0 || where() >= cpus)
			printf("on CPU %d\n", where());
	show_status("/proc/self/status");

	/* Wrong sets. */
	cpu_set_t none, beyond, many;
	CPU_ZERO(&none);
	CPU_ZERO(&beyond);
	CPU_SET(cpus, &beyond);
	memset(&many, -1, sizeof many);
	error("no size", syscall(SYS_sched_getaffinity, 0, 0, words));
	error("half a word", syscall(SYS_sched_getaffinity, 0, 12, words));
	error("nowhere", syscall(SYS_sched_getaffinity, 0, 64, (void *)-4096l));
	error("nobody", syscall(SYS_sched_getaffinity, 1 << 28, 64, words));
	error("set none", sched_setaffinity(0, sizeof none, &none));
	error("set beyond", sched_setaffinity(0, sizeof beyond, &beyond));
	error("set nowhere", syscall(SYS_sched_setaffinity, 0, 8, (void *)-4096l));
	error("set nothing", syscall(SYS_sched_setaffinity, 0, 0, words));
	error("set nobody", syscall(SYS_sched_setaffinity, 1 << 28, sizeof many, &many));
	error("set too many", sched_setaffinity(0, sizeof many, &many));
	error("getcpu nowhere", syscall(SYS_getcpu, (void *)-4096l, 0, 0));
	show("still all", 0);

	/* Inherited sets. A thread that is there already inherits nothing. */
	pthread_t early, late;
	pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
	pthread_mutex_lock(&gate);
	pthread_create(&early, 0, waits, &gate);
	error("to the last", bind_to(0, last));
	show("bound", 0);
	show_status("/proc/self/status");
	printf("on its CPU: %d %d\n", where() == last, of_stat() == last);
	in_thread("thread");
	fflush(stdout);
	if (!fork()) {
		show("child", 0);
		exit(0);
	}
	wait(0);
	executed("program");
	if (!vfork()) {
		execl("/proc/self/exe", self, count, "after vfork", (char *)0);
		_exit(1);
	}
	wait(0);

	cpu_set_t first;
	CPU_ZERO(&first);
	CPU_SET(0, &first);
	pthread_setaffinity_np(early, sizeof first, &first);
	CPU_ZERO(&none);
	pthread_getaffinity_np(early, sizeof none, &none);
	printf("told of another: %d\n", CPU_EQUAL(&first, &none));
	pthread_mutex_unlock(&gate);
	pthread_join(early, 0);
	pthread_attr_t attributes;
	pthread_attr_init(&attributes);
	pthread_attr_setaffinity_np(&attributes, sizeof first, &first);
	pthread_create(&late, &attributes, shown, "by attributes");
	pthread_join(late, 0);
	show("self", 0);
	pthread_create(&late, 0, worker, 0);
	pthread_join(late, 0);
	show("self, after that", 0);
	error("to all", sched_setaffinity(0, sizeof many, &many));
	show("all again", 0);
	in_thread("thread of all");
	executed("program of all");
	return 0;
}
