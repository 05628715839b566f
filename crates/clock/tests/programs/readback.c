/*
 * Timers read back as they were set. Prints the intervals that are read and, as time passes, of what is left only
 * whether it can be true: not more than was set (itimers of CPU time: but for a tick, which the kernel adds), and not
 * much less.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "instants.h"

#define LONG 1000000000000ll
#define SECOND 1000000000ll

static long long us(struct timeval t)
{
	return t.tv_sec * 1000000ll + t.tv_usec;
}

static struct timeval tv(long long us)
{
	return (struct timeval){ us / 1000000, us % 1000000 };
}

static const char *left(long long seen, long long set, long long more)
{
	return seen <= set + more && seen > set - SECOND ? "as set" : "not as set";
}

static void itimers(void)
{
	static const char *const names[] = { "ITIMER_REAL", "ITIMER_VIRTUAL", "ITIMER_PROF" };
	static const long long intervals[] = { 0, 1, 2, 3, 7, 999, 12000, 12001, 123456, 999999,
					     1000000, 1000001, 3600000007 };
	for (int which = 0; which < 3; which++)
		for (unsigned i = 0; i < sizeof intervals / sizeof *intervals; i++) {
			struct itimerval set = { tv(intervals[i]), tv(LONG / 1000) }, seen, old;
			setitimer(which, &set, 0);
			getitimer(which, &seen);
			set.it_value = tv(0);
			setitimer(which, &set, &old);
			printf("%s: %lld and %lld of %lld us, %s, %s\n", names[which], us(seen.it_interval), us(old.it_interval),
			       intervals[i], left(us(seen.it_value) * 1000, LONG, which ? SECOND / 5 : 0),
			       left(us(old.it_value) * 1000, LONG, which ? SECOND / 5 : 0));
		}
	/* To the µs; a tick more, and what it took to get there less. */
	struct itimerval set = { tv(0), tv(12000) }, seen;
	setitimer(ITIMER_REAL, &set, 0);
	getitimer(ITIMER_REAL, &seen);
	printf("ITIMER_REAL: %s\n", us(seen.it_value) <= 12000 && us(seen.it_value) > 0 ? "as set" : "not as set");
	set.it_value = tv(0);
	setitimer(ITIMER_REAL, &set, 0);
}

static const long long intervals[] = { 0, 1, 2, 3, 7, 999, 12000000, 12000001, 123456789, 999999999,
				     1000000000, 1000000001 };
#define INTERVALS (sizeof intervals / sizeof *intervals)

static void posix_timers(void)
{
	static const struct {
		const char *name;
		clockid_t clock;
	} clocks[] = { { "CLOCK_MONOTONIC", CLOCK_MONOTONIC }, { "CLOCK_REALTIME", CLOCK_REALTIME },
		       { "CLOCK_TAI", CLOCK_TAI },
		       { "CLOCK_PROCESS_CPUTIME_ID", CLOCK_PROCESS_CPUTIME_ID },
		       { "CLOCK_THREAD_CPUTIME_ID", CLOCK_THREAD_CPUTIME_ID } };
	for (unsigned c = 0; c < sizeof clocks / sizeof *clocks; c++)
		for (unsigned i = 0; i < INTERVALS; i++) {
			timer_t id;
			struct sigevent none = { .sigev_notify = SIGEV_NONE };
			struct itimerspec set = { span(intervals[i]), span(LONG + 1) }, seen, old;
			timer_create(clocks[c].clock, &none, &id);
			timer_settime(id, 0, &set, 0);
			timer_gettime(id, &seen);
			set.it_value = span(0);
			timer_settime(id, 0, &set, &old);
			timer_delete(id);
			printf("%s: %lld and %lld of %lld ns, %s, %s\n", clocks[c].name, ns(seen.it_interval), ns(old.it_interval),
			       intervals[i], left(ns(seen.it_value), LONG + 1, 0), left(ns(old.it_value), LONG + 1, 0));
		}
}

static void descriptors(void)
{
	int fd = timerfd_create(CLOCK_MONOTONIC, 0);
	for (unsigned i = 0; i < INTERVALS; i++) {
		struct itimerspec set = { span(intervals[i]), span(LONG + 1) }, seen, old;
		timerfd_settime(fd, 0, &set, 0);
		timerfd_gettime(fd, &seen);
		timerfd_settime(fd, 0, &set, &old);
		printf("timerfd: %lld and %lld of %lld ns, %s, %s\n", ns(seen.it_interval), ns(old.it_interval), intervals[i],
		       left(ns(seen.it_value), LONG + 1, 0), left(ns(old.it_value), LONG + 1, 0));
	}
	close(fd);
}

int main(void)
{
	itimers();
	posix_timers();
	descriptors();
	return 0;
}
