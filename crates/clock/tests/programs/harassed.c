/*
 * A program that executes itself so many times, while its parent keeps sending it a signal with a handler that does not
 * restart calls. No signal interrupts an exec. Prints how often it executed, or why it could not.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t came;
static void take(int sig) { came = sig; }

static void listen_to_it(void)
{
	/* A new program ignores it until then. */
	struct sigaction action = { .sa_handler = take };
	sigaction(SIGURG, &action, 0);
}

static void go_on(char *name, int left)
{
	char number[12];
	snprintf(number, sizeof number, "%d", left);
	char *argv[] = { name, number, 0 };
	execv("/proc/self/exe", argv);
	printf("with %d to go: %s\n", left, strerror(errno));
	exit(1);
}

int main(int argc, char **argv)
{
	if (argc == 3) {
		pid_t child = fork();
		if (child == 0) {
			listen_to_it();
			go_on(argv[0], atoi(argv[2]));
		}
		unsigned pause = 0;
		while (waitpid(child, 0, WNOHANG) == 0) {
			kill(child, SIGURG);
			/* All instants of an exec in turn. */
			pause = (pause + 7) % 100;
			nanosleep(&(struct timespec){ 0, pause * 1000 }, 0);
		}
		return 0;
	}
	listen_to_it();
	int left = atoi(argv[1]);
	if (left > 0)
		go_on(argv[0], left - 1);
	/* Signals that came while it executed, and those that come now. */
	sigset_t blocked;
	sigprocmask(SIG_BLOCK, 0, &blocked);
	while (!came)
		;
	puts(sigismember(&blocked, SIGURG) || sigismember(&blocked, SIGUSR1) ? "blocked" : "done");
	return 0;
}
