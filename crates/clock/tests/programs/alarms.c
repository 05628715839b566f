/*
 * Timers of 300 ms that the kernel keeps, all at once, a process for each, or the one that the argument names. Prints
 * how long each took, in virtual us. A wait that ends with an error that is not the timer's doing is told as such.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000l
#define SPAN (300 * MS)
#define TICK (50 * MS)

static long now(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000l + t.tv_nsec;
}

static struct timespec ts(long ns)
{
	return (struct timespec){ ns / 1000000000, ns % 1000000000 };
}

static int descriptor(clockid_t clock, int flags, long value, long interval)
{
	struct itimerspec when = { ts(interval), ts(flags ? now(clock) + value : value) };
	int fd = timerfd_create(clock, 0);
	return timerfd_settime(fd, flags, &when, 0) ? -1 : fd;
}

static int ticks(int fd, uint64_t n)
{
	for (uint64_t seen, all = 0; all < n; all += seen)
		if (read(fd, &seen, 8) != 8)
			return 0;
	return 1;
}

static int read_once(void) { return ticks(descriptor(CLOCK_MONOTONIC, 0, SPAN, 0), 1); }
static int periodic(void) { return ticks(descriptor(CLOCK_MONOTONIC, 0, TICK, TICK), SPAN / TICK); }
static int polled(void)
{
	struct pollfd p = { descriptor(CLOCK_MONOTONIC, TFD_TIMER_ABSTIME, SPAN, 0), POLLIN, 0 };
	return poll(&p, 1, -1) == 1;
}
static int epolled(void)
{
	struct epoll_event e = { .events = EPOLLIN };
	int epoll = epoll_create1(0);
	epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor(CLOCK_REALTIME, TFD_TIMER_ABSTIME, SPAN, 0), &e);
	return epoll_wait(epoll, &e, 1, -1) == 1;
}
/* One timer in two processes: moved twice it would be too late. */
static int shared(void)
{
	int fd = descriptor(CLOCK_MONOTONIC, 0, SPAN, 0), also = dup(fd), status;
	if (fork() == 0)
		_exit(!ticks(also, 1));
	return wait(&status) > 0 && status == 0;
}
/* It has expired and nobody has read it: it must stay readable. */
static int unread(void)
{
	int fd = descriptor(CLOCK_MONOTONIC, 0, MS, 0), more = descriptor(CLOCK_MONOTONIC, 0, MS, 3600000 * MS);
	struct timespec t = ts(SPAN);
	nanosleep(&t, 0);
	return ticks(fd, 1) && ticks(more, 1);
}

static volatile sig_atomic_t rings;
static void ring(int sig) { rings += sig == SIGALRM; }
/* Blocked but while waiting. */
static int wait_for_rings(int n)
{
	sigset_t none;
	sigemptyset(&none);
	while (rings < n)
		if (sigsuspend(&none) != -1 || errno != EINTR)
			return 0;
	return rings == n;
}
static int itimer(void)
{
	struct itimerval t = { { 0, 0 }, { 0, SPAN / 1000 } };
	return !setitimer(ITIMER_REAL, &t, 0) && wait_for_rings(1);
}
static int itimer_periodic(void)
{
	struct itimerval t = { { 0, TICK / 1000 }, { 0, TICK / 1000 } };
	return !setitimer(ITIMER_REAL, &t, 0) && wait_for_rings(SPAN / TICK);
}
static int itimer_exec(void)
{
	struct itimerval t = { { 0, 0 }, { 0, SPAN / 1000 } };
	int status;
	pid_t child = fork();
	if (child == 0) {
		sigset_t none;
		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, 0);
		/* On a busy machine it may ring before there is another program. */
		signal(SIGALRM, SIG_DFL);
		setitimer(ITIMER_REAL, &t, 0);
		execlp("sleep", "sleep", "1000", (char *)0);
	}
	return waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM;
}

/* The only thread waits in the kernel, and cannot be stopped, for some of the time. */
static int doze(void *unused)
{
	(void)unused;
	struct timespec t = ts(SPAN / 3);
	_exit(nanosleep(&t, 0));
}
static int itimer_vfork(void)
{
	static char stack[65536] __attribute__((aligned(16)));
	struct itimerval t = { { 0, 0 }, { 0, SPAN / 1000 } };
	int status;
	pid_t child = setitimer(ITIMER_REAL, &t, 0) ? -1
			: clone(doze, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, 0);
	return child > 0 && waitpid(child, &status, 0) == child && status == 0 && wait_for_rings(1);
}

static int posix(clockid_t clock, int flags, long value, long interval, int n)
{
	timer_t id;
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN };
	struct itimerspec when = { ts(interval), ts(flags ? now(clock) + value : value) };
	sigset_t set;
	siginfo_t info;
	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN);
	sigprocmask(SIG_BLOCK, &set, 0);
	if (timer_create(clock, &event, &id) || timer_settime(id, flags, &when, 0))
		return 0;
	while (n > 0) {
		if (sigwaitinfo(&set, &info) != SIGRTMIN)
			return 0;
		n -= 1 + info.si_overrun;
	}
	return 1;
}
static int posix_once(void) { return posix(CLOCK_MONOTONIC, 0, SPAN, 0, 1); }
static int posix_date(void) { return posix(CLOCK_REALTIME, TIMER_ABSTIME, SPAN, 0, 1); }
static int posix_periodic(void) { return posix(CLOCK_BOOTTIME, 0, TICK, TICK, SPAN / TICK); }

/* Calls that have no time-out are not disturbed. */
static int pipes[2];
static void *late(void *unused)
{
	struct timespec t = ts(SPAN);
	nanosleep(&t, 0);
	return write(pipes[1], "x", 1) == 1 ? unused : 0;
}
static int endless(void)
{
	pthread_t thread;
	struct epoll_event e = { .events = EPOLLIN };
	int epoll = epoll_create1(0);
	pthread_create(&thread, 0, late, 0);
	epoll_ctl(epoll, EPOLL_CTL_ADD, pipes[0], &e);
	return epoll_wait(epoll, &e, 1, -1) == 1;
}

/* Nor is what has a long one of a socket, though natively a signal would end it. */
static struct timeval hours = { 10000, 0 };
static void *drain(void *socket)
{
	static char room[1 << 20];
	struct timespec t = ts(SPAN);
	nanosleep(&t, 0);
	while (recv(*(int *)socket, room, sizeof room, MSG_DONTWAIT) > 0)
		;
	return 0;
}
static int sending(void)
{
	static char block[4096];
	static int pair[2];
	pthread_t thread;
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) || setsockopt(pair[0], SOL_SOCKET, SO_SNDTIMEO, &hours, sizeof hours))
		return 0;
	while (send(pair[0], block, sizeof block, MSG_DONTWAIT) > 0)
		;
	pthread_create(&thread, 0, drain, &pair[1]);
	return write(pair[0], block, sizeof block) == sizeof block;
}
static int listener;
static void *welcome(void *unused)
{
	struct timespec t = ts(SPAN);
	nanosleep(&t, 0);
	for (;;)
		accept(listener, 0, 0);
	return unused;
}
static int connecting(void)
{
	/* A name of the kernel's choice. */
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	socklen_t len = sizeof a.sun_family;
	pthread_t thread;
	int client = -1;
	listener = socket(AF_UNIX, SOCK_STREAM, 0);
	if (bind(listener, (void *)&a, len) || listen(listener, 0))
		return 0;
	len = sizeof a;
	getsockname(listener, (void *)&a, &len);
	pthread_create(&thread, 0, welcome, 0);
	/* One may wait to be accepted, the next waits in connect. */
	for (int i = 0; i < 2; i++) {
		client = socket(AF_UNIX, SOCK_STREAM, 0);
		if (setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &hours, sizeof hours) || connect(client, (void *)&a, len))
			return 0;
	}
	return client >= 0;
}

static const struct {
	const char *name;
	int (*run)(void);
} kinds[] = { { "timerfd", read_once }, { "timerfd-periodic", periodic }, { "timerfd-polled", polled },
	      { "timerfd-epolled", epolled }, { "timerfd-shared", shared }, { "timerfd-unread", unread },
	      { "itimer", itimer }, { "itimer-periodic", itimer_periodic }, { "itimer-exec", itimer_exec },
	      { "posix", posix_once }, { "posix-date", posix_date }, { "posix-periodic", posix_periodic },
	      { "endless", endless }, { "sending", sending }, { "connecting", connecting },
	      /* Alone, as everybody stands for longer with it. */
	      { "itimer-vfork", itimer_vfork } };
#define KINDS (int)(sizeof kinds / sizeof *kinds)

int main(int argc, char **argv)
{
	sigset_t alarms;
	sigemptyset(&alarms);
	sigaddset(&alarms, SIGALRM);
	sigprocmask(SIG_BLOCK, &alarms, 0);
	struct sigaction action = { .sa_handler = ring };
	sigaction(SIGALRM, &action, 0);
	if (pipe(pipes))
		return 2;
	puts("ready");
	fflush(stdout);
	for (int i = 0; i < KINDS; i++)
		if ((argc > 1 ? !strcmp(argv[1], kinds[i].name) : i < KINDS - 1) && fork() == 0) {
			char line[80];
			long start = now(CLOCK_MONOTONIC);
			errno = 0;
			int good = kinds[i].run();
			int n = good ? snprintf(line, sizeof line, "%s %ld\n", kinds[i].name, (now(CLOCK_MONOTONIC) - start) / 1000) :
				       snprintf(line, sizeof line, "%s failed: %s\n", kinds[i].name, strerror(errno));
			_exit(write(1, line, n) != n);
		}
	while (wait(0) > 0)
		;
	return 0;
}
