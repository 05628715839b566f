/* Calls that signals interrupt, and where they go on. The output must be the same on whatever machine it runs. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile int handled;

static void handler(int sig)
{
	(void)sig;
	handled++;
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void handle(int sig, int flags)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = flags };
	if (sigaction(sig, &action, 0))
		abort();
}

static void alarm_in(long us, long then)
{
	struct itimerval timer = { { 0, then }, { 0, us } };
	if (setitimer(ITIMER_REAL, &timer, 0))
		abort();
}

static void tell(const char *what, double begin, double least, long result)
{
	printf("%s: %ld, %s, %d handled, %s\n", what, result, result < 0 && errno == EINTR ? "interrupted" : "not interrupted",
	       handled, now() - begin >= least ? "in time" : "early");
}

static void *sleep_long(void *rest)
{
	struct timespec t = { 10, 0 };
	if (nanosleep(&t, rest) != -1 || errno != EINTR)
		abort();
	return 0;
}

/* Many calls of all kinds, in the midst of many signals. */
static void *work(void *unused)
{
	for (int i = 0; i < 500; i++) {
		struct timespec t = { 0, 20000 };
		struct stat s;
		sigset_t set;
		int fd = open("/", O_RDONLY);
		if (fd < 0 || close(fd) || stat("/", &s) || (nanosleep(&t, 0) && errno != EINTR) ||
		    (poll(0, 0, 1) && errno != EINTR) || sigemptyset(&set) || pthread_sigmask(SIG_BLOCK, &set, 0))
			abort();
	}
	return unused;
}

int main(void)
{
	struct timespec t = { 0, 500000000 }, rest = { 0, 0 };
	struct rusage usage;
	int status;
	double begin;
	pthread_t threads[3];

	handle(SIGALRM, 0);
	begin = now();
	alarm_in(50000, 0);
	tell("nanosleep", begin, 0.05, nanosleep(&t, &rest));
	printf("what is left: %s\n", rest.tv_sec == 0 && rest.tv_nsec > 0 && rest.tv_nsec < 500000000 ? "less" : "wrong");
	begin = now();
	alarm_in(50000, 0);
	tell("poll", begin, 0.05, poll(0, 0, 10000));
	begin = now();
	alarm_in(50000, 0);
	tell("ppoll", begin, 0.05, ppoll(0, 0, &(struct timespec){ 10, 0 }, &(sigset_t){ 0 }));

	/* With SA_RESTART a child is waited for to its end; a sleep is interrupted all the same. */
	handle(SIGALRM, SA_RESTART);
	for (int with_usage = 0; with_usage < 2; with_usage++) {
		pid_t pid = fork();
		if (pid == 0) {
			nanosleep(&(struct timespec){ 0, 150000000 }, 0);
			_exit(3);
		}
		begin = now();
		alarm_in(50000, 0);
		pid_t got = with_usage ? wait4(pid, &status, 0, &usage) : waitpid(pid, &status, 0);
		tell("a child", begin, 0.05, got == pid && WEXITSTATUS(status) == 3);
	}
	begin = now();
	alarm_in(50000, 0);
	tell("nanosleep again", begin, 0.05, nanosleep(&t, 0));

	handle(SIGUSR1, 0);
	if (pthread_create(threads, 0, sleep_long, &rest))
		abort();
	nanosleep(&(struct timespec){ 0, 200000000 }, 0);
	pthread_kill(threads[0], SIGUSR1);
	pthread_join(threads[0], 0);
	printf("in a thread: %s left\n", rest.tv_sec < 10 ? "less" : "all");

	sigset_t set, before;
	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	sigprocmask(SIG_BLOCK, &set, &before);
	handled = 0;
	begin = now();
	alarm_in(20000, 20000);
	for (int i = 0; i < 3; i++)
		sigsuspend(&before);
	tell("sigsuspend", begin, 0.06, 0);
	alarm_in(20000, 0);
	int sig = 0;
	sigwait(&set, &sig);
	printf("sigwait: %d\n", sig);
	sigprocmask(SIG_SETMASK, &before, 0);

	alarm_in(500, 500);
	for (int i = 0; i < 3; i++)
		if (pthread_create(threads + i, 0, work, 0))
			abort();
	work(0);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], 0);
	alarm_in(0, 0);
	printf("many: %s\n", handled > 100 ? "handled" : "lost");
	return 0;
}
