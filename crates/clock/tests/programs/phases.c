/*
 * Periodic timers that were to begin long ago: how often they have ticked, and when they tick next. Silent if all is
 * well; the arguments are how many ms ago, and the interval in ms.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "instants.h"

#define MS 1000000ll

static long long start, interval;

static long long ticks_until(clockid_t clock)
{
	return 1 + (now(clock) - start) / interval;
}

/* The first wait ends at once, the second with the next tick. */
static void check(const char *name, clockid_t clock, long long (*ticks)(int), int timer)
{
	long long seen = 0;
	for (int turn = 0; turn < 2; turn++) {
		long long least = ticks_until(clock);
		seen += ticks(timer);
		long long most = ticks_until(clock), after = (now(clock) - start) % interval;
		if (seen < least || seen > most)
			printf("%s: %lld ticks, not %lld to %lld\n", name, seen, least, most);
		if (turn == 1 && after > interval / 2)
			printf("%s: a tick %lld us after it was due\n", name, after / 1000);
	}
}

static long long read_ticks(int fd)
{
	uint64_t n = 0;
	return read(fd, &n, 8) == 8 ? (long long)n : -1000000;
}

static long long wait_ticks(int unused)
{
	(void)unused;
	sigset_t set;
	siginfo_t info;
	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN);
	return sigwaitinfo(&set, &info) == SIGRTMIN ? 1 + info.si_overrun : -1000000;
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	long long ago = atoll(argv[1]) * MS;
	interval = atoll(argv[2]) * MS;
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN);
	sigprocmask(SIG_BLOCK, &set, 0);
	static const struct {
		const char *name;
		clockid_t clock;
	} clocks[] = { { "monotonic", CLOCK_MONOTONIC }, { "realtime", CLOCK_REALTIME } };
	for (int i = 0; i < 2; i++) {
		char name[40];
		start = now(clocks[i].clock) - ago;
		struct itimerspec when = { span(interval), span(start) };
		int fd = timerfd_create(clocks[i].clock, 0);
		if (timerfd_settime(fd, TFD_TIMER_ABSTIME, &when, 0))
			perror("timerfd_settime");
		snprintf(name, sizeof name, "timerfd, %s", clocks[i].name);
		check(name, clocks[i].clock, read_ticks, fd);
		close(fd);

		timer_t id;
		struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN };
		if (timer_create(clocks[i].clock, &event, &id) || timer_settime(id, TIMER_ABSTIME, &when, 0))
			perror("timer_settime");
		snprintf(name, sizeof name, "timer, %s", clocks[i].name);
		check(name, clocks[i].clock, wait_ticks, 0);
		timer_delete(id);
	}
	/*
	 * A date long before this machine was switched on: the ticks cannot be counted from there, but fall on the same
	 * instants.
	 */
	start = 1000 * MS;
	struct itimerspec when = { span(interval), span(start) };
	int fd = timerfd_create(CLOCK_REALTIME, 0);
	if (timerfd_settime(fd, TFD_TIMER_ABSTIME, &when, 0))
		perror("timerfd_settime");
	for (int turn = 0; turn < 2; turn++) {
		read_ticks(fd);
		long long after = (now(CLOCK_REALTIME) - start) % interval;
		if (turn == 1 && after > interval / 2)
			printf("since 1970: a tick %lld us after it was due\n", after / 1000);
	}
	return 0;
}
