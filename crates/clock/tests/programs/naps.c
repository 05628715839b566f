/* Waits of 300 ms, all at once, in every form that the program itself waits in: a thread for each. Prints how long each
   took, in virtual us. */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MS 300

static struct timespec span = { 0, MS * 1000000 };

static long now(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000l + t.tv_nsec;
}

static struct timespec later(clockid_t clock)
{
	long t = now(clock) + MS * 1000000l;
	return (struct timespec){ t / 1000000000, t % 1000000000 };
}

static void relative(void) { nanosleep(&span, 0); }
static void absolute(void)
{
	struct timespec t = later(CLOCK_MONOTONIC);
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, 0);
}
static void date(void)
{
	struct timespec t = later(CLOCK_REALTIME);
	clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &t, 0);
}
static void polled(void) { poll(0, 0, MS); }
static void ppolled(void) { ppoll(0, 0, &span, 0); }
static void selected(void)
{
	struct timeval t = { 0, MS * 1000 };
	select(0, 0, 0, 0, &t);
}
static void epolled(void)
{
	struct epoll_event e;
	epoll_wait(epoll_create1(0), &e, 1, MS);
}
static void semaphore(void)
{
	sem_t s;
	struct timespec t = later(CLOCK_REALTIME);
	sem_init(&s, 0, 0);
	sem_timedwait(&s, &t);
}
static void condition(void)
{
	pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
	pthread_cond_t c = PTHREAD_COND_INITIALIZER;
	struct timespec t = later(CLOCK_REALTIME);
	pthread_mutex_lock(&m);
	while (pthread_cond_timedwait(&c, &m, &t) == 0)
		;
}
static void futex(void)
{
	int word = 0;
	syscall(SYS_futex, &word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 0, &span);
}
static void signalled(void)
{
	sigset_t none;
	sigemptyset(&none);
	sigaddset(&none, SIGUSR2);
	sigtimedwait(&none, 0, &span);
}

static const struct nap {
	const char *name;
	void (*wait)(void);
} naps[] = { { "nanosleep", relative }, { "clock_nanosleep", absolute }, { "date", date },   { "poll", polled },
	     { "ppoll", ppolled },	{ "select", selected },		 { "epoll", epolled }, { "semaphore", semaphore },
	     { "condition", condition }, { "futex", futex },		 { "sigtimedwait", signalled } };
#define NAPS (sizeof naps / sizeof *naps)

static void *take(void *which)
{
	const struct nap *nap = which;
	long start = now(CLOCK_MONOTONIC);
	nap->wait();
	char line[64];
	int n = snprintf(line, sizeof line, "%s %ld\n", nap->name, (now(CLOCK_MONOTONIC) - start) / 1000);
	return (void *)(write(1, line, n) == n ? 0l : 1l);
}

int main(void)
{
	pthread_t threads[NAPS];
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &set, 0);
	puts("ready");
	fflush(stdout);
	for (unsigned i = 0; i < NAPS; i++)
		pthread_create(&threads[i], 0, take, (void *)&naps[i]);
	for (unsigned i = 0; i < NAPS; i++)
		pthread_join(threads[i], 0);
	return 0;
}
