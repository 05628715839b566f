/* Reading the clock page: inline, because every reading of every clock goes through here. */
#ifndef DIORAMA_PAGE_H
#define DIORAMA_PAGE_H

#include "dilation.h"

/* hi64(a * b) */
static inline u64 high(u64 a, u64 b)
{
	return (u64)(((unsigned __int128)a * b) >> 64);
}

static inline u32 begin_read(void)
{
	u32 sequence;
	while (__builtin_expect((sequence = PAGE->sequence) & 1, 0))
		__builtin_ia32_pause();
	__asm__ volatile("" ::: "memory"); /* x86 does not reorder loads; the compiler must not either */
	return sequence;
}

static inline bool read_again(u32 sequence)
{
	__asm__ volatile("" ::: "memory");
	return __builtin_expect(PAGE->sequence != sequence, 0);
}

/* Real MONOTONIC, from the kernel's vDSO where that is worth it (init.c). */
static inline u64 read_real(void)
{
	struct timespec t;
	u64 kernels = STATE->fast_clock_gettime;
	if (__builtin_expect(!kernels, 0))
		syscall(__NR_clock_gettime, CLOCK_MONOTONIC, &t);
	else
		((long (*)(i32, struct timespec *))kernels)(CLOCK_MONOTONIC, &t);
	return (u64)t.sec * NS + (u64)t.nsec;
}

/* Since the base of the page. */
static inline u64 passed_until(u64 real)
{
	u64 base = PAGE->real_base;
	/* Another thread may have read the clock just before the page was rewritten. */
	return real > base ? real - base : 0;
}

static inline u64 virtual_after(u64 passed)
{
	return PAGE->virtual_base + passed * PAGE->rate_whole + high(passed, PAGE->rate_frac);
}

static inline u64 virtual_of(u64 real)
{
	return virtual_after(passed_until(real));
}

static inline u64 read_virtual(void)
{
	u64 now;
	u32 sequence;
	do {
		sequence = begin_read();
		now = virtual_of(read_real());
	} while (read_again(sequence));
	return now;
}

/*
 * The same, or the date, in seconds and ns. Dividing by 10^9 after the scaling would be a third of what dilation costs
 * a reading, so the seconds are computed beside it: rounded down at each step, and thus at most two behind.
 */
static inline struct timespec read_split(bool date)
{
	u64 ns, second;
	u32 sequence;
	do {
		sequence = begin_read();
		u64 passed = passed_until(read_real());
		ns = virtual_after(passed) + (date ? (u64)PAGE->realtime_offset : 0);
		second = (date ? PAGE->date_second : PAGE->second) + high(passed, PAGE->second_rate);
	} while (read_again(sequence));
	for (ns -= second * NS; __builtin_expect(ns >= NS, 0); ns -= NS)
		second++;
	return (struct timespec){ (i64)second, (i64)ns };
}

#endif
