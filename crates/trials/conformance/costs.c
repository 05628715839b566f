/*
 * Does one thing so many times; how long it takes is measured outside, by a clock that is not dilated.
 *
 *     costs clock|call|exec COUNT
 */
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static int clock_once(void)
{
	struct timespec t;
	return clock_gettime(CLOCK_MONOTONIC, &t);
}

/* A call that no time is in. */
static int call_once(void)
{
	return syscall(SYS_getppid) < 0;
}

static int exec_once(void)
{
	char *command[] = { "true", 0 };
	int status;
	pid_t child;
	return posix_spawn(&child, "/bin/true", 0, 0, command, environ) || waitpid(child, &status, 0) != child || status;
}

int main(int argc, char **argv)
{
	int (*once)(void) = 0;
	if (argc == 3)
		once = !strcmp(argv[1], "clock") ? clock_once :
		       !strcmp(argv[1], "call")	 ? call_once :
		       !strcmp(argv[1], "exec")	 ? exec_once : 0;
	if (!once)
		return 2;
	puts("-");
	fflush(stdout);
	for (long i = atol(argv[2]); i > 0; i--)
		if (once())
			return 1;
	return 0;
}
