/*
 * What CPU clocks and the clock of a machine say of so many threads that compute for a while: a line for each number,
 * with how many times as fast as the clock CPU time went by, by four accounts of it.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/times.h>
#include <time.h>
#include <unistd.h>

#define SECONDS 0.4

static double clock_of(clockid_t id)
{
	struct timespec t;
	clock_gettime(id, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static double by_rusage(void)
{
	struct rusage used;
	getrusage(RUSAGE_SELF, &used);
	return used.ru_utime.tv_sec + used.ru_stime.tv_sec + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

static double by_times(void)
{
	struct tms used;
	times(&used);
	return (used.tms_utime + used.tms_stime) / 100.0;
}

/* Fields 14 and 15. */
static double by_stat(void)
{
	char text[1024] = "";
	FILE *file = fopen("/proc/self/stat", "r");
	size_t len = fread(text, 1, sizeof text - 1, file);
	fclose(file);
	text[len] = 0;
	char *at = strrchr(text, ')');
	unsigned long user = 0, system = 0;
	if (!at || sscanf(at, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system) != 2)
		abort();
	return (user + system) / 100.0;
}

static double until;
static atomic_int wrong;

static void *computes(void *cpus)
{
	/* A program that counts something by CPU has an array for it. */
	int first = sched_getcpu();
	for (long i = 0; clock_of(CLOCK_MONOTONIC) < until; i++)
		for (volatile int n = 0; n < 2000; n++)
			;
	int now = sched_getcpu();
	if (now != first || now < 0 || now >= *(int *)cpus)
		wrong++;
	return 0;
}

int main(int argc, char **argv)
{
	int cpus = argc > 1 ? atoi(argv[1]) : 1;
	for (int threads = 1; threads <= 2 * cpus; threads *= 2) {
		pthread_t all[64];
		double begun = clock_of(CLOCK_MONOTONIC), cpu = clock_of(CLOCK_PROCESS_CPUTIME_ID);
		double rusage = by_rusage(), ticks = by_times(), stat = by_stat();
		until = begun + SECONDS;
		for (int i = 1; i < threads; i++)
			pthread_create(all + i, 0, computes, &cpus);
		computes(&cpus);
		for (int i = 1; i < threads; i++)
			pthread_join(all[i], 0);
		cpu = clock_of(CLOCK_PROCESS_CPUTIME_ID) - cpu;
		rusage = by_rusage() - rusage;
		ticks = by_times() - ticks;
		stat = by_stat() - stat;
		double passed = clock_of(CLOCK_MONOTONIC) - begun;
		printf("%d %.4f %.4f %.4f %.4f\n", threads, cpu / passed, rusage / passed, ticks / passed, stat / passed);
	}
	printf("wrong %d\n", wrong);
	return 0;
}
