/* Reading the clock page, and the arithmetic between real and virtual time. */
#include "dilation.h"

/* hi64(a * b) */
static inline u64 high(u64 a, u64 b)
{
	return (u64)(((unsigned __int128)a * b) >> 64);
}

/* ceil(a * num / den), at most FOREVER. */
static u64 scale_up(u64 a, u64 num, u64 den)
{
	unsigned __int128 p = (unsigned __int128)a * num + (den - 1);
	u64 hi = (u64)(p >> 64), lo = (u64)p, quotient, remainder;
	if (hi >= den)
		return FOREVER;
	/* The instruction itself: gcc would call __udivti3. The quotient fits because hi < den. */
	__asm__("divq %4" : "=a"(quotient), "=d"(remainder) : "a"(lo), "d"(hi), "r"(den) : "cc");
	return quotient > FOREVER ? FOREVER : quotient;
}

static inline u32 begin_read(void)
{
	u32 sequence;
	while ((sequence = PAGE->sequence) & 1)
		__builtin_ia32_pause();
	__asm__ volatile("" ::: "memory"); /* x86 does not reorder loads; the compiler must not either */
	return sequence;
}

static inline bool read_again(u32 sequence)
{
	__asm__ volatile("" ::: "memory");
	return PAGE->sequence != sequence;
}

u64 real_now(void)
{
	struct timespec t;
	if (PAGE->kernel_vdso_is_slow || !STATE->given.vdso_clock_gettime)
		syscall(__NR_clock_gettime, CLOCK_MONOTONIC, &t);
	else
		((long (*)(i32, struct timespec *))STATE->given.vdso_clock_gettime)(CLOCK_MONOTONIC, &t);
	return (u64)t.sec * NS + (u64)t.nsec;
}

static inline u64 virtual_of(u64 real)
{
	u64 base = PAGE->real_base;
	/* Another thread may have read the clock just before the page was rewritten. */
	u64 passed = real > base ? real - base : 0;
	return PAGE->virtual_base + passed * PAGE->rate_whole + high(passed, PAGE->rate_frac);
}

u64 virtual_now(void)
{
	u64 now;
	u32 sequence;
	do {
		sequence = begin_read();
		now = virtual_of(real_now());
	} while (read_again(sequence));
	return now;
}

bool valid(const struct timespec *t)
{
	return t->sec >= 0 && (u64)t->nsec < NS;
}

u64 to_ns(const struct timespec *t)
{
	return (u64)t->sec >= FOREVER / NS ? FOREVER : (u64)t->sec * NS + (u64)t->nsec;
}

struct timespec from_ns(u64 ns)
{
	return (struct timespec){ (i64)(ns / NS), (i64)(ns % NS) };
}

u64 real_span(u64 virtual_ns)
{
	u64 real;
	u32 sequence;
	do {
		sequence = begin_read();
		real = virtual_ns >= FOREVER ? FOREVER : scale_up(virtual_ns, PAGE->tdf_num, PAGE->tdf_den);
	} while (read_again(sequence));
	return real;
}

u64 virtual_span(u64 real_ns)
{
	u64 span;
	u32 sequence;
	do {
		sequence = begin_read();
		span = real_ns >= FOREVER ? FOREVER : real_ns * PAGE->rate_whole + high(real_ns, PAGE->rate_frac);
	} while (read_again(sequence));
	return span;
}

u64 cpu_virtual(u64 real_ns)
{
	return real_ns * STATE->given.cpu_whole + high(real_ns, STATE->given.cpu_frac);
}

u64 cpu_real(u64 virtual_ns)
{
	if (virtual_ns >= FOREVER || high(virtual_ns, STATE->given.cpu_back_whole))
		return FOREVER;
	u64 real = virtual_ns * STATE->given.cpu_back_whole + high(virtual_ns, STATE->given.cpu_back_frac);
	return real >= FOREVER ? FOREVER : real + (virtual_ns != 0);
}

bool wall_clock(i32 clock, i64 *offset)
{
	switch (clock) {
	/* A virtual machine never sleeps: BOOTTIME is MONOTONIC. */
	case CLOCK_MONOTONIC:
	case CLOCK_MONOTONIC_RAW:
	case CLOCK_MONOTONIC_COARSE:
	case CLOCK_BOOTTIME:
	case CLOCK_BOOTTIME_ALARM:
		*offset = 0;
		return true;
	case CLOCK_REALTIME:
	case CLOCK_REALTIME_COARSE:
	case CLOCK_REALTIME_ALARM:
		*offset = PAGE->realtime_offset;
		return true;
	case CLOCK_TAI:
		*offset = PAGE->realtime_offset + PAGE->tai_offset;
		return true;
	default:
		return false;
	}
}

bool cpu_clock(i32 clock)
{
	/* Negative ids name a process or thread by the complement of its id, but those that end in binary 011 a device. */
	return clock == CLOCK_PROCESS_CPUTIME_ID || clock == CLOCK_THREAD_CPUTIME_ID || (clock < 0 && (clock & 7) != 3);
}

static void set_real(struct deadline *d)
{
	do {
		d->sequence = begin_read();
		u64 base = PAGE->virtual_base;
		if (d->virt >= FOREVER) {
			d->real = FOREVER;
		} else if (d->virt <= base) {
			d->real = 1; /* long past; 0 would disarm a timer */
		} else {
			u64 span = scale_up(d->virt - base, PAGE->tdf_num, PAGE->tdf_den);
			u64 real = PAGE->real_base + span;
			d->real = real >= FOREVER ? FOREVER : real;
		}
	} while (read_again(d->sequence));
}

struct deadline after(u64 virtual_ns)
{
	struct deadline d;
	u64 now = virtual_now();
	d.virt = virtual_ns >= FOREVER - now ? FOREVER : now + virtual_ns;
	set_real(&d);
	return d;
}

struct deadline at(u64 virtual_ns, i64 offset)
{
	struct deadline d;
	if (virtual_ns >= FOREVER)
		d.virt = FOREVER;
	else if ((i64)virtual_ns <= offset)
		d.virt = 0;
	else
		d.virt = virtual_ns - (u64)offset;
	set_real(&d);
	return d;
}

struct timespec real_rest(const struct deadline *d)
{
	u64 now = real_now();
	return from_ns(d->real > now ? d->real - now : 0);
}

u64 virtual_rest(const struct deadline *d)
{
	u64 now = virtual_now();
	return d->virt > now ? d->virt - now : 0;
}

bool not_yet(struct deadline *d)
{
	if (PAGE->sequence == d->sequence || virtual_now() >= d->virt)
		return false;
	set_real(d);
	return true;
}
