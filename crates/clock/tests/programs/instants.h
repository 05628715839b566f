/* Clocks in nanoseconds, for the programs that measure them. */
#pragma once
#include <stdlib.h>
#include <time.h>

static inline long long ns(struct timespec t)
{
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static inline struct timespec span(long long ns)
{
	return (struct timespec){ ns / 1000000000, ns % 1000000000 };
}

static inline long long now(clockid_t clock)
{
	struct timespec t;
	if (clock_gettime(clock, &t))
		abort();
	return ns(t);
}
