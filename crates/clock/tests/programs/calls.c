/*
 * What waits.c does not wait by: time-outs of sockets, CPU clocks and their timers, CPU times of children, what remains
 * of timers. One line each: "NAME ELAPSED NOMINAL", ns. An unexpected result ends the program with a sentence.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/times.h>
#include <sys/timex.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "instants.h"

#define MS 1000000ll
#define NOMINAL (20 * MS)

static long long tv(struct timeval t) { return t.tv_sec * 1000000000ll + t.tv_usec * 1000ll; }

static void must(int good, const char *name)
{
	if (!good) {
		printf("%s: unexpected result, errno %d (%s)\n", name, errno, strerror(errno));
		exit(1);
	}
}

static void told(const char *name, long long elapsed, long long nominal)
{
	printf("%s %lld %lld\n", name, elapsed, nominal);
}

#define RUN(name, clock, nominal, expression) \
	do { \
		long long start_ = now(clock); \
		errno = 0; \
		must(expression, name); \
		told(name, now(clock) - start_, nominal); \
	} while (0)

static volatile sig_atomic_t rang;
static void ring(int sig) { rang = sig; }
static int busy_until_rung(void)
{
	while (!rang)
		;
	rang = 0;
	return 1;
}

static int reads_as(int s, int level, int option, long long value)
{
	int seen = 0;
	socklen_t len = sizeof seen;
	return !getsockopt(s, level, option, &seen, &len) && seen == value;
}

static void *burn(void *end)
{
	while (now(CLOCK_PROCESS_CPUTIME_ID) < *(long long *)end)
		;
	return 0;
}

static pid_t burning(long long cpu)
{
	pid_t pid = fork();
	if (pid == 0) {
		burn(&cpu);
		_exit(0);
	}
	return pid;
}

static void sockets(void)
{
	int pair[2], one = 1;
	char byte, block[4096] = "";
	struct timeval t = { 0, NOMINAL / 1000 };
	must(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0, "socketpair");
	setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
	setsockopt(pair[0], SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t);
	RUN("SO_RCVTIMEO", CLOCK_MONOTONIC, NOMINAL, recv(pair[0], &byte, 1, 0) == -1 && errno == EAGAIN);
	struct iovec iov = { &byte, 1 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	RUN("SO_RCVTIMEO-recvmsg", CLOCK_MONOTONIC, NOMINAL, recvmsg(pair[0], &m, 0) == -1 && errno == EAGAIN);
	while (send(pair[0], block, sizeof block, MSG_DONTWAIT) > 0)
		;
	RUN("SO_SNDTIMEO", CLOCK_MONOTONIC, NOMINAL, send(pair[0], block, sizeof block, 0) == -1 && errno == EAGAIN);

	/* The kernel looks at the time-out of recvmmsg when a message has come, and so one comes too late. */
	int late[2];
	struct mmsghdr many[2] = { { .msg_hdr = m }, { .msg_hdr = m } };
	must(socketpair(AF_UNIX, SOCK_DGRAM, 0, late) == 0, "socketpair");
	struct timespec limit = span(NOMINAL), nap = span(NOMINAL + 5 * MS);
	if (fork() == 0) {
		nanosleep(&nap, 0);
		_exit(send(late[1], "x", 1, 0) != 1);
	}
	RUN("recvmmsg", CLOCK_MONOTONIC, NOMINAL, recvmmsg(late[0], many, 2, 0, &limit) == 1);
	wait(0);

	int listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0), peer = -1;
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t len = sizeof a;
	int small = 4096;
	setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
	must(!bind(listener, (void *)&a, len) && !listen(listener, 1) && !getsockname(listener, (void *)&a, &len), "listen");
	setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
	RUN("SO_RCVTIMEO-accept", CLOCK_MONOTONIC, NOMINAL, accept(listener, 0, 0) == -1 && errno == EAGAIN);
	must(!connect(client, (void *)&a, len) && (peer = accept(listener, 0, 0)) >= 0, "connect");
	int idle = 7, between = 3, user = 2500;
	setsockopt(client, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
	setsockopt(client, SOL_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
	setsockopt(client, SOL_TCP, TCP_KEEPINTVL, &between, sizeof between);
	setsockopt(client, SOL_TCP, TCP_USER_TIMEOUT, &user, sizeof user);
	must(reads_as(client, SOL_TCP, TCP_KEEPIDLE, idle) && reads_as(client, SOL_TCP, TCP_KEEPINTVL, between) &&
		     reads_as(client, SOL_TCP, TCP_USER_TIMEOUT, user), "keepalive");
	/* With unsent data, a close lingers for as long as it is told. */
	setsockopt(client, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
	struct timespec brief = span(MS);
	for (int full = 0; full < 10; full++) {
		while (send(client, block, sizeof block, MSG_DONTWAIT) > 0)
			full = 0;
		nanosleep(&brief, 0);
	}
	struct linger linger = { 1, 1 };
	setsockopt(client, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
	RUN("SO_LINGER", CLOCK_MONOTONIC, 1000 * MS, close(client) == 0);
	close(peer);
}

static void remainders(void)
{
	struct itimerspec when = { { 0, 0 }, span(NOMINAL) }, left;
	struct timespec half = span(NOMINAL / 2);
	struct itimerval it = { { 0, 0 }, { 0, NOMINAL / 1000 } }, it_left;
	timer_t id;
	struct sigevent none = { .sigev_notify = SIGEV_NONE };
	int fd = timerfd_create(CLOCK_MONOTONIC, 0);
	must(!timer_create(CLOCK_REALTIME, &none, &id), "timer_create");
	long long start = now(CLOCK_MONOTONIC);
	must(!timerfd_settime(fd, 0, &when, 0) && !timer_settime(id, 0, &when, 0) && !setitimer(ITIMER_REAL, &it, 0), "set");
	long long set = now(CLOCK_MONOTONIC);
	nanosleep(&half, 0);
	/* The time passed and the time left make up the whole. */
	must(!timerfd_gettime(fd, &left), "timerfd_gettime");
	told("timerfd_gettime", now(CLOCK_MONOTONIC) - start + ns(left.it_value), NOMINAL);
	must(!timer_gettime(id, &left), "timer_gettime");
	told("timer_gettime", now(CLOCK_MONOTONIC) - start + ns(left.it_value), NOMINAL);
	must(!getitimer(ITIMER_REAL, &it_left), "getitimer");
	told("getitimer", now(CLOCK_MONOTONIC) - start + tv(it_left.it_value), NOMINAL);
	must(set - start < NOMINAL, "setting took too long");
	it.it_value.tv_usec = 0;
	setitimer(ITIMER_REAL, &it, 0);
	timer_delete(id);
	close(fd);
}

/*
 * The kernel counts the CPU time of itimers in ticks, each to whoever runs when it comes, which is true of who runs
 * from tick to tick. With others on its processor a process may be counted much more than it gets, natively too; so it
 * keeps them away for these milliseconds.
 */
static void alone(int yes)
{
	struct sched_param how = { .sched_priority = yes };
	sched_setscheduler(0, yes ? SCHED_FIFO : SCHED_OTHER, &how);
}

/* Woken by ticks of the kernel, which are never early and up to some real ms late. */
static void cpu_clocks(void)
{
	alone(1);
	struct itimerval it = { { 0, 0 }, { 0, NOMINAL / 1000 } };
	signal(SIGPROF, ring);
	signal(SIGVTALRM, ring);
	signal(SIGXCPU, ring);
	RUN("ITIMER_PROF", CLOCK_PROCESS_CPUTIME_ID, NOMINAL, !setitimer(ITIMER_PROF, &it, 0) && busy_until_rung());
	RUN("ITIMER_VIRTUAL", CLOCK_PROCESS_CPUTIME_ID, NOMINAL - 2 * MS,
	    !setitimer(ITIMER_VIRTUAL, &it, 0) && busy_until_rung());
	clockid_t mine, thread_clock;
	must(!clock_getcpuclockid(0, &mine) && !pthread_getcpuclockid(pthread_self(), &thread_clock), "getcpuclockid");
	clockid_t clocks[] = { CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID, mine, thread_clock };
	static const char *const names[] = { "timer-process-cpu", "timer-thread-cpu", "timer-cpuclockid",
					    "timer-thread-cpuclockid" };
	for (int i = 0; i < 4; i++) {
		timer_t id;
		struct itimerspec when = { { 0, 0 }, span(NOMINAL) };
		struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGPROF };
		must(!timer_create(clocks[i], &event, &id), names[i]);
		RUN(names[i], clocks[i], NOMINAL, !timer_settime(id, 0, &when, 0) && busy_until_rung());
		timer_delete(id);
	}
	pthread_t thread;
	long long enough = now(CLOCK_PROCESS_CPUTIME_ID) + 10 * NOMINAL;
	struct timespec t = span(NOMINAL);
	pthread_create(&thread, 0, burn, &enough);
	RUN("clock_nanosleep-cpu", CLOCK_PROCESS_CPUTIME_ID, NOMINAL, !clock_nanosleep(CLOCK_PROCESS_CPUTIME_ID, 0, &t, 0));
	pthread_join(thread, 0);

	struct rusage used;
	struct tms tms;
	clockid_t childs;
	int status;
	pid_t child = burning(NOMINAL);
	must(!clock_getcpuclockid(child, &childs) && wait4(child, &status, 0, &used) == child && status == 0, "wait4");
	told("wait4", tv(used.ru_utime) + tv(used.ru_stime) + 1000, NOMINAL);
	siginfo_t info;
	child = burning(NOMINAL);
	must(syscall(SYS_waitid, P_PID, child, &info, WEXITED, &used) == 0, "waitid");
	told("waitid", tv(used.ru_utime) + tv(used.ru_stime) + 1000, NOMINAL);
	/* With no child that has ended it writes none. */
	struct rusage untouched = { .ru_utime = { 1234567, 8 }, .ru_stime = { 9, 1 } };
	child = fork();
	if (child == 0) {
		pause();
		_exit(0);
	}
	int polled = syscall(SYS_waitid, P_PID, child, &info, WEXITED | WNOHANG, &untouched);
	kill(child, SIGKILL);
	must(waitpid(child, &status, 0) == child, "waitpid");
	must(polled == 0 && untouched.ru_utime.tv_sec == 1234567 && untouched.ru_utime.tv_usec == 8 &&
		     untouched.ru_stime.tv_sec == 9 && untouched.ru_stime.tv_usec == 1, "waitid without a child");
	getrusage(RUSAGE_CHILDREN, &used);
	told("getrusage-children", tv(used.ru_utime) + tv(used.ru_stime) + 3000, 2 * NOMINAL);
	times(&tms);
	/* Whole ticks, of user and of system time. */
	told("times-children", (tms.tms_cutime + tms.tms_cstime + 2) * (1000000000ll / sysconf(_SC_CLK_TCK)), 2 * NOMINAL);

	/* In whole seconds of CPU time: too long to keep others away. */
	alone(0);
	struct rlimit limit = { 1, 100 }, seen;
	child = fork();
	if (child == 0) {
		must(!setrlimit(RLIMIT_CPU, &limit) && !getrlimit(RLIMIT_CPU, &seen) && seen.rlim_cur == 1 && seen.rlim_max == 100,
		     "RLIMIT_CPU");
		struct itimerval count = { { 0, 0 }, { 1000, 0 } };
		setitimer(ITIMER_PROF, &count, 0);
		busy_until_rung();
		getitimer(ITIMER_PROF, &count);
		/* Both are counted in the same ticks; one may be rounded up. */
		told("RLIMIT_CPU", 1000000 * MS - tv(count.it_value), 990 * MS);
		exit(0);
	}
	must(waitpid(child, &status, 0) == child && status == 0, "RLIMIT_CPU");
}

int main(void)
{
	setvbuf(stdout, 0, _IOLBF, 0);
	sockets();
	remainders();
	cpu_clocks();
	struct timex timex = { .modes = 0 };
	long long before = now(CLOCK_REALTIME) / 1000;
	must(adjtimex(&timex) >= 0, "adjtimex");
	long long read = timex.time.tv_sec * 1000000ll + timex.time.tv_usec / (timex.status & STA_NANO ? 1000 : 1);
	must(read >= before && read <= now(CLOCK_REALTIME) / 1000, "adjtimex is not REALTIME");
	struct timeval left;
	must(adjtime(0, &left) == 0 && left.tv_sec == 0 && left.tv_usec == 0, "adjtime");
	return 0;
}
