/*
 * All clocks, by vDSO and by system call. First line: how far, in ns, the clocks disagree at worst (raw call against
 * vDSO, gettimeofday and time against REALTIME). Then busy for 30 ms of MONOTONIC: "elapsed cpu rusage times(ticks)
 * sysinfo".
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/times.h>
#include <time.h>
#include <unistd.h>

#include "instants.h"

static long long raw(clockid_t clock)
{
	struct timespec t;
	if (syscall(SYS_clock_gettime, clock, &t))
		abort();
	return ns(t);
}

int main(void)
{
	static const clockid_t clocks[] = { CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW, CLOCK_REALTIME_COARSE,
					    CLOCK_MONOTONIC_COARSE, CLOCK_BOOTTIME, CLOCK_TAI, CLOCK_PROCESS_CPUTIME_ID,
					    CLOCK_THREAD_CPUTIME_ID };
	for (unsigned i = 0; i < sizeof clocks / sizeof *clocks; i++)
		for (int k = 0; k < 1000; k++) {
			long long a = now(clocks[i]), b = raw(clocks[i]), c = now(clocks[i]);
			/* The coarse clocks may be as coarse as a tick between the two ways, natively. */
			long long slack = i == 3 || i == 4 ? 10000000 : 0;
			if (b < a - slack || c < b - slack) {
				printf("clock %d runs backwards: %lld %lld %lld\n", clocks[i], a, b, c);
				return 1;
			}
		}
	for (int k = 0; k < 1000; k++) {
		struct timeval tv;
		long long a = now(CLOCK_REALTIME) / 1000;
		gettimeofday(&tv, 0);
		long long b = tv.tv_sec * 1000000ll + tv.tv_usec, c = now(CLOCK_REALTIME) / 1000;
		long long coarse = (long long)time(0);
		if (a > b || b > c || coarse < a / 1000000 - 1 || coarse > now(CLOCK_REALTIME) / 1000000000) {
			printf("gettimeofday or time disagree: %lld %lld %lld %lld\n", a, b, c, coarse);
			return 1;
		}
	}
	struct tms tms;
	struct rusage ru;
	struct sysinfo si;
	long long start = now(CLOCK_MONOTONIC), cpu = now(CLOCK_PROCESS_CPUTIME_ID);
	clock_t ticks = times(&tms);
	while (now(CLOCK_MONOTONIC) < start + 30000000)
		;
	getrusage(RUSAGE_SELF, &ru);
	long long used = (ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) * 1000000ll + ru.ru_utime.tv_usec + ru.ru_stime.tv_usec;
	cpu = now(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	ticks = times(&tms) - ticks;
	/* The kernel rounds it up. */
	long least = now(CLOCK_BOOTTIME) / 1000000000 + 1;
	sysinfo(&si);
	long most = now(CLOCK_BOOTTIME) / 1000000000 + 1;
	long off = si.uptime < least ? least - si.uptime : si.uptime > most ? si.uptime - most : 0;
	printf("%lld %lld %lld %ld %ld\n", now(CLOCK_MONOTONIC) - start, cpu, used * 1000, (long)ticks, off);
	return 0;
}
