/*
 * Every call that waits with a time-out, with nothing to wait for. One line each: "NAME ELAPSED NOMINAL", ns on
 * CLOCK_MONOTONIC. An unexpected result ends the program with a sentence.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <mqueue.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "instants.h"

#define MS 1000000ll
#define NOMINAL (10 * MS)

static struct timespec in(clockid_t clock, long long ns)
{
	return span(now(clock) + ns);
}

static long long started;

static void begin(void)
{
	started = now(CLOCK_MONOTONIC);
}

static void end(const char *name, long long nominal, int good)
{
	long long elapsed = now(CLOCK_MONOTONIC) - started;
	if (!good) {
		printf("%s: unexpected result, errno %d (%s)\n", name, errno, strerror(errno));
		exit(1);
	}
	printf("%s %lld %lld\n", name, elapsed, nominal);
}

#define RUN(name, expression, expected) \
	do { \
		begin(); \
		errno = 0; \
		long r_ = (long)(expression); \
		end(name, NOMINAL, expected); \
		(void)r_; \
	} while (0)
#define OK (r_ == 0)
#define FAILS(e) (r_ == -1 && errno == (e))

static pthread_mutex_t held;
static sem_t acquired, enough;
static void *hold(void *unused)
{
	pthread_mutex_lock(&held);
	sem_post(&acquired);
	sem_wait(&enough);
	pthread_mutex_unlock(&held);
	return unused;
}

static volatile sig_atomic_t rang;
static void ring(int sig)
{
	(void)sig;
	rang = 1;
}
/* The signal is blocked but within sigsuspend, so that it cannot come too soon. */
static long wait_for_ring(void)
{
	sigset_t none;
	sigemptyset(&none);
	while (!rang)
		sigsuspend(&none);
	rang = 0;
	return 0;
}

static long timer(clockid_t clock, int flags, struct itimerspec when)
{
	timer_t id;
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM };
	if (timer_create(clock, &event, &id) || timer_settime(id, flags, &when, 0))
		return -1;
	wait_for_ring();
	return timer_delete(id);
}

static long descriptor(clockid_t clock, int flags, struct itimerspec when)
{
	uint64_t n = 0;
	int fd = timerfd_create(clock, 0);
	if (fd < 0 || timerfd_settime(fd, flags, &when, 0) || read(fd, &n, 8) != 8)
		return -1;
	close(fd);
	return n == 1 ? 0 : -1;
}

int main(void)
{
	struct timespec t;
	struct timeval tv;
	uint32_t word = 0;
	fd_set set;
	int pipes[2], sockets[2];
	char byte;
	if (pipe(pipes) || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets))
		return 2;
	setvbuf(stdout, 0, _IOLBF, 0);

	t = span(NOMINAL);
	RUN("nanosleep", nanosleep(&t, 0), OK);
	RUN("usleep", usleep(NOMINAL / 1000), OK);
	RUN("clock_nanosleep", clock_nanosleep(CLOCK_MONOTONIC, 0, &t, 0), OK);
	RUN("clock_nanosleep-realtime", clock_nanosleep(CLOCK_REALTIME, 0, &t, 0), OK);
	static const struct {
		const char *name;
		clockid_t clock;
	} clocks[] = { { "abs-monotonic", CLOCK_MONOTONIC }, { "abs-realtime", CLOCK_REALTIME },
		       { "abs-boottime", CLOCK_BOOTTIME }, { "abs-tai", CLOCK_TAI } };
	for (int i = 0; i < 4; i++) {
		begin();
		t = in(clocks[i].clock, NOMINAL);
		int r = clock_nanosleep(clocks[i].clock, TIMER_ABSTIME, &t, 0);
		end(clocks[i].name, NOMINAL, r == 0);
	}

	struct pollfd p = { pipes[0], POLLIN, 0 };
	t = span(NOMINAL);
	RUN("poll", poll(&p, 1, NOMINAL / MS), OK);
	RUN("ppoll", ppoll(&p, 1, &t, 0), OK);
	FD_ZERO(&set);
	FD_SET(pipes[0], &set);
	tv = (struct timeval){ 0, NOMINAL / 1000 };
	RUN("select", select(pipes[0] + 1, &set, 0, 0, &tv), OK);
	FD_SET(pipes[0], &set);
	RUN("pselect", pselect(pipes[0] + 1, &set, 0, 0, &t, 0), OK);
	int epoll = epoll_create1(0);
	struct epoll_event event = { .events = EPOLLIN };
	epoll_ctl(epoll, EPOLL_CTL_ADD, pipes[0], &event);
	sigset_t none;
	sigemptyset(&none);
	RUN("epoll_wait", epoll_wait(epoll, &event, 1, NOMINAL / MS), OK);
	RUN("epoll_pwait", epoll_pwait(epoll, &event, 1, NOMINAL / MS, &none), OK);
	RUN("epoll_pwait2", syscall(441, epoll, &event, 1, &t, 0, 8), OK);

	RUN("futex-wait", syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &t, 0, 0), FAILS(ETIMEDOUT));
	begin();
	t = in(CLOCK_MONOTONIC, NOMINAL);
	end("futex-bitset", NOMINAL,
	    syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, 0, &t, 0, -1) == -1 && errno == ETIMEDOUT &&
		    now(CLOCK_MONOTONIC) >= started + NOMINAL);
	begin();
	t = in(CLOCK_REALTIME, NOMINAL);
	int r = syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE | FUTEX_CLOCK_REALTIME, 0, &t, 0, -1);
	end("futex-bitset-realtime", NOMINAL, r == -1 && errno == ETIMEDOUT);
	static const struct {
		const char *name;
		clockid_t clock;
		int flag;
	} requeues[] = { { "futex-requeue-pi", CLOCK_MONOTONIC, 0 },
			 { "futex-requeue-pi-realtime", CLOCK_REALTIME, FUTEX_CLOCK_REALTIME } };
	for (int i = 0; i < 2; i++) {
		uint32_t pi = 0;
		begin();
		t = in(requeues[i].clock, NOMINAL);
		r = syscall(SYS_futex, &word, FUTEX_WAIT_REQUEUE_PI_PRIVATE | requeues[i].flag, 0, &t, &pi, 0);
		end(requeues[i].name, NOMINAL, r == -1 && errno == ETIMEDOUT);
	}
	struct {
		uint64_t value, address;
		uint32_t flags, reserved;
	} waiter = { 0, (uint64_t)&word, 2 /* 32 bits */, 0 };
	begin();
	t = in(CLOCK_MONOTONIC, NOMINAL);
	r = syscall(449, &waiter, 1, 0, &t, CLOCK_MONOTONIC);
	end("futex_waitv", NOMINAL, r == -1 && errno == ETIMEDOUT);
	sem_init(&acquired, 0, 0);
	sem_init(&enough, 0, 0);
	begin();
	t = in(CLOCK_REALTIME, NOMINAL);
	r = sem_timedwait(&acquired, &t);
	end("sem_timedwait", NOMINAL, r == -1 && errno == ETIMEDOUT);
	for (int pi = 0; pi < 2; pi++) {
		pthread_mutexattr_t a;
		pthread_t holder;
		pthread_mutexattr_init(&a);
		pthread_mutexattr_setprotocol(&a, pi ? PTHREAD_PRIO_INHERIT : PTHREAD_PRIO_NONE);
		pthread_mutex_init(&held, &a);
		pthread_create(&holder, 0, hold, 0);
		sem_wait(&acquired);
		begin();
		t = in(CLOCK_REALTIME, NOMINAL);
		r = pthread_mutex_timedlock(&held, &t);
		end(pi ? "mutex-pi" : "mutex", NOMINAL, r == ETIMEDOUT);
		sem_post(&enough);
		pthread_join(holder, 0);
	}
	pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
	pthread_cond_t c = PTHREAD_COND_INITIALIZER;
	pthread_mutex_lock(&m);
	begin();
	t = in(CLOCK_REALTIME, NOMINAL);
	r = pthread_cond_timedwait(&c, &m, &t);
	end("cond_timedwait", NOMINAL, r == ETIMEDOUT);

	t = span(NOMINAL);
	sigset_t usr1;
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	sigprocmask(SIG_BLOCK, &usr1, 0);
	RUN("sigtimedwait", sigtimedwait(&usr1, 0, &t), FAILS(EAGAIN));
	int sem = semget(IPC_PRIVATE, 1, 0600);
	struct sembuf take = { 0, -1, 0 };
	RUN("semtimedop", semtimedop(sem, &take, 1, &t), FAILS(EAGAIN));
	semctl(sem, 0, IPC_RMID);
	char name[40];
	snprintf(name, sizeof name, "/diorama-test-%d", getpid());
	struct mq_attr attr = { .mq_maxmsg = 1, .mq_msgsize = 8 };
	mqd_t q = mq_open(name, O_CREAT | O_RDWR, 0600, &attr);
	mq_unlink(name);
	char message[8] = "";
	begin();
	t = in(CLOCK_REALTIME, NOMINAL);
	r = (int)mq_timedreceive(q, message, 8, 0, &t);
	end("mq_timedreceive", NOMINAL, r == -1 && errno == ETIMEDOUT);
	mq_send(q, message, 1, 0);
	begin();
	t = in(CLOCK_REALTIME, NOMINAL);
	r = mq_timedsend(q, message, 1, 0, &t);
	end("mq_timedsend", NOMINAL, r == -1 && errno == ETIMEDOUT);
	t = span(NOMINAL);
	unsigned long aio = 0;
	if (syscall(SYS_io_setup, 1, &aio) == 0) {
		char events[64];
		RUN("io_getevents", syscall(SYS_io_getevents, aio, 1, 1, events, &t), OK);
		RUN("io_pgetevents", syscall(SYS_io_pgetevents, aio, 1, 1, events, &t, 0), OK);
		syscall(SYS_io_destroy, aio);
	}
	tv = (struct timeval){ 0, NOMINAL / 1000 };
	setsockopt(sockets[0], SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv);
	struct timeval back;
	socklen_t len = sizeof back;
	if (getsockopt(sockets[0], SOL_SOCKET, SO_RCVTIMEO, &back, &len) || labs(back.tv_usec - tv.tv_usec) > 4000) {
		printf("SO_RCVTIMEO reads back as %ld us\n", (long)back.tv_usec);
		return 1;
	}
	RUN("rcvtimeo", recv(sockets[0], &byte, 1, 0), FAILS(EAGAIN));

	struct itimerspec when = { { 0, 0 }, span(NOMINAL) };
	RUN("timerfd", descriptor(CLOCK_MONOTONIC, 0, when), OK);
	RUN("timerfd-realtime", descriptor(CLOCK_REALTIME, 0, when), OK);
	RUN("timerfd-abs", descriptor(CLOCK_MONOTONIC, TFD_TIMER_ABSTIME,
				      (struct itimerspec){ { 0, 0 }, in(CLOCK_MONOTONIC, NOMINAL) }), OK);
	RUN("timerfd-abs-realtime", descriptor(CLOCK_REALTIME, TFD_TIMER_ABSTIME,
					       (struct itimerspec){ { 0, 0 }, in(CLOCK_REALTIME, NOMINAL) }), OK);
	RUN("timerfd-abs-boottime", descriptor(CLOCK_BOOTTIME, TFD_TIMER_ABSTIME,
					       (struct itimerspec){ { 0, 0 }, in(CLOCK_BOOTTIME, NOMINAL) }), OK);

	sigset_t alarms;
	sigemptyset(&alarms);
	sigaddset(&alarms, SIGALRM);
	sigprocmask(SIG_BLOCK, &alarms, 0);
	struct sigaction action = { .sa_handler = ring };
	sigaction(SIGALRM, &action, 0);
	RUN("timer", timer(CLOCK_MONOTONIC, 0, when), OK);
	RUN("timer-abs", timer(CLOCK_MONOTONIC, TIMER_ABSTIME,
			       (struct itimerspec){ { 0, 0 }, in(CLOCK_MONOTONIC, NOMINAL) }), OK);
	RUN("timer-abs-realtime", timer(CLOCK_REALTIME, TIMER_ABSTIME,
					(struct itimerspec){ { 0, 0 }, in(CLOCK_REALTIME, NOMINAL) }), OK);
	struct itimerval it = { { 0, 0 }, { 0, NOMINAL / 1000 } };
	RUN("setitimer", setitimer(ITIMER_REAL, &it, 0) || wait_for_ring(), OK);
	begin();
	alarm(1);
	unsigned left = alarm(1);
	wait_for_ring();
	end("alarm", 1000 * MS, left == 1);

	/* Interrupted after 5 of 20: what was slept and what is left make up the whole. */
	sigprocmask(SIG_UNBLOCK, &alarms, 0);
	struct timespec rest = { 0, 0 };
	t = span(20 * NOMINAL);
	it.it_value.tv_usec *= 5;
	begin();
	setitimer(ITIMER_REAL, &it, 0);
	r = nanosleep(&t, &rest);
	long long remains = rest.tv_sec * 1000000000ll + rest.tv_nsec;
	end("interrupted", 5 * NOMINAL, r == -1 && errno == EINTR && remains > 0);
	printf("slept-and-left %lld %lld\n", now(CLOCK_MONOTONIC) - started + remains, 20 * NOMINAL);
	return 0;
}
