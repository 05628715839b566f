/* Reading the clock page: inline, because every reading of every clock goes through here. */
#ifndef DIORAMA_PAGE_H
#define DIORAMA_PAGE_H

#include "dilation.h"
#include "../../scale/include/node_clock.h"

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

/* A reading of a node's clock, and the line on which it was. */
struct reading {
	u64 real; /* the host's clock */
	u64 shown; /* the node's, in real instants: the one at which the run's clock shows the same */
	u64 rate; /* in NODE_CLOCK_UNIT */
};

/* Whoever writes the page interrupts its readers, or holds the core that they wait for. */
static inline struct reading read_line(const volatile struct node_clock *c)
{
	struct reading r;
	u64 floor;
	u32 sequence;
	do {
		while (__builtin_expect((sequence = c->sequence) & 1, 0))
			__builtin_ia32_pause();
		__asm__ volatile("" ::: "memory");
		r.real = read_real();
		r.rate = c->rate;
		u64 base = c->base_real, passed = r.real > base ? r.real - base : 0;
		r.shown = c->base + (u64)(((unsigned __int128)passed * r.rate) >> NODE_CLOCK_RATE_BITS);
		floor = c->floor;
		__asm__ volatile("" ::: "memory");
	} while (__builtin_expect(c->sequence != sequence, 0));
	if (r.shown < floor)
		r.shown = floor;
	return r;
}

/* The node's own clock. Where there is none, the real clock itself. */
static inline u64 read_node(void)
{
	const volatile struct node_clock *c = (const volatile struct node_clock *)STATE->node_clock;
	return c ? read_line(c).shown : read_real();
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
		now = virtual_of(read_node());
	} while (read_again(sequence));
	return now;
}

static inline bool has_own_date(void)
{
	const volatile struct node_clock *c = (const volatile struct node_clock *)STATE->node_clock;
	return __builtin_expect(c != 0, 1) && __builtin_expect(c->date_sequence != 0, 0);
}

/* By how much the node's date is off against the others' when MONOTONIC is `monotonic`. */
i64 date_off_at(u64 monotonic);

/* Where it is (settings/dates.c). */
i64 own_date_off_at(u64 monotonic);
i64 own_date_off_of(i64 date);
struct timespec read_own_date(void);

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
		u64 passed = passed_until(read_node());
		ns = virtual_after(passed) + (date ? (u64)PAGE->realtime_offset : 0);
		second = (date ? PAGE->date_second : PAGE->second) + high(passed, PAGE->second_rate);
	} while (read_again(sequence));
	for (ns -= second * NS; __builtin_expect(ns >= NS, 0); ns -= NS)
		second++;
	return (struct timespec){ (i64)second, (i64)ns };
}

#endif
