/* The arithmetic between real and virtual time. */
#include "page.h"

/* floor((a * num + more) / den), at most FOREVER. */
static u64 scale(u64 a, u64 num, u64 den, u64 more)
{
	unsigned __int128 p = (unsigned __int128)a * num + more;
	u64 hi = (u64)(p >> 64), lo = (u64)p, quotient, remainder;
	if (hi >= den)
		return FOREVER;
	/* The instruction itself: gcc would call __udivti3. The quotient fits because hi < den. */
	__asm__("divq %4" : "=a"(quotient), "=d"(remainder) : "a"(lo), "d"(hi), "r"(den) : "cc");
	return quotient > FOREVER ? FOREVER : quotient;
}

u64 scale_up(u64 a, u64 num, u64 den)
{
	return scale(a, num, den, den - 1);
}

static u64 scale_down(u64 a, u64 num, u64 den)
{
	return scale(a, num, den, 0);
}

u64 real_now(void)
{
	return read_real();
}

u64 virtual_now(void)
{
	return read_virtual();
}

i64 date_off_at(u64 monotonic)
{
	return has_own_date() ? own_date_off_at(monotonic) : 0;
}

/* By how much it is off when the others' date, counted as MONOTONIC is, would be `date` and the node's own is. */
static __attribute__((noinline)) i64 date_off_of(i64 date)
{
	return has_own_date() && date < (i64)FOREVER ? own_date_off_of(date) : 0;
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
	return virtual_ns >= FOREVER ? FOREVER : scale_up(virtual_ns, STATE->given.cpu_num, STATE->given.cpu_den);
}

/* A stretch of time in which the rate was the same: its start, and real over virtual time in it. */
struct stretch {
	u64 real, virt, reals, virts;
	bool present; /* it has not ended: the page's own rate holds */
};

/*
 * The stretch that `at`, on the virtual or the real clock, lies in; false before the first. Callers hold the sequence
 * lock.
 */
static bool find_stretch(struct stretch *s, i64 at, bool on_virtual)
{
	u64 n = PAGE->changes;
	if (n == 0 || n > DIORAMA_CHANGES)
		return false;
	const volatile struct change *first = PAGE->change, *c = first + n - 1;
	if (at <= (i64)(on_virtual ? first->virt : first->real))
		return false;
	while ((u64)at < (on_virtual ? c->virt : c->real))
		c--;
	s->real = c->real;
	s->virt = c->virt;
	s->present = c == first + n - 1;
	s->reals = s->present ? PAGE->tdf_num : c[1].real - c->real;
	s->virts = s->present ? PAGE->tdf_den : c[1].virt - c->virt;
	return true;
}

/*
 * What the node's clock showed when the host's was `real`, if that is in the slice that the node has now; else that
 * instant itself. The host stamps files and packets by its own clock, which one that is ahead has left behind.
 */
static i64 seen_at(i64 real)
{
	const volatile struct node_clock *c = (const volatile struct node_clock *)STATE->node_clock;
	if (!c || real < 0)
		return real;
	u64 shown;
	u32 sequence;
	do {
		sequence = c->sequence;
		u64 base = c->base_real;
		shown = (u64)real < base ? (u64)real :
					   c->base + (u64)(((unsigned __int128)((u64)real - base) * c->rate) >> NODE_CLOCK_RATE_BITS);
	} while (__builtin_expect((sequence & 1) || c->sequence != sequence, 0));
	return (i64)shown > real ? (i64)shown : real;
}

/* The host stamps by the run's clock; a node that is behind must not see what is later than its own. */
static i64 not_after_now(i64 at)
{
	i64 now;
	return STATE->node_clock && at > (now = (i64)virtual_now()) ? now : at;
}

i64 past_virtual(i64 real)
{
	i64 result;
	u32 sequence;
	struct stretch s;
	real = seen_at(real);
	do {
		sequence = begin_read();
		if (!find_stretch(&s, real, false))
			result = real;
		else if (s.present)
			result = (i64)virtual_of((u64)real);
		else
			result = (i64)(s.virt + (s.reals ? scale_down((u64)real - s.real, s.virts, s.reals) : 0));
	} while (read_again(sequence));
	return not_after_now(result);
}

/*
 * Where on the MONOTONIC clock that goes with `offset` a date lies; false for dates that are too long ago (about 1735)
 * to be counted from there.
 */
static bool on_monotonic(i64 date, i64 offset, i64 *at)
{
	return !__builtin_sub_overflow(date, offset, at);
}

i64 date_virtual(i64 date)
{
	i64 at, result;
	if (!on_monotonic(date, PAGE->host_offset, &at))
		return date;
	at = past_virtual(at);
	/* A file from before the run keeps its date. */
	i64 off = at > 0 ? date_off_at((u64)at) : 0;
	return __builtin_add_overflow(at, PAGE->realtime_offset + off, &result) ? date : result;
}

i64 date_real(i64 date)
{
	i64 result, at;
	u32 sequence;
	struct stretch s;
	do {
		sequence = begin_read();
		result = date;
		if (on_monotonic(date, PAGE->realtime_offset, &at) && find_stretch(&s, at -= date_off_of(at), true)) {
			u64 span = (u64)at - s.virt;
			u64 real = s.real + (s.virts ? scale_up(span, s.reals, s.virts) : 0);
			/* As a date, not more than 63 bits can name. */
			if (real > FOREVER || __builtin_add_overflow((i64)real, PAGE->host_offset, &result))
				result = (i64)FOREVER;
		}
	} while (read_again(sequence));
	return result;
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

long alarm_clock_missing(i32 clock)
{
	if (__builtin_expect(clock != CLOCK_REALTIME_ALARM && clock != CLOCK_BOOTTIME_ALARM, 1))
		return 0;
	return syscall(__NR_clock_getres, clock, 0);
}

bool cpu_clock(i32 clock)
{
	/* Negative ids name a process or thread by the complement of its id, but those that end in binary 011 a device. */
	return clock == CLOCK_PROCESS_CPUTIME_ID || clock == CLOCK_THREAD_CPUTIME_ID || (clock < 0 && (clock & 7) != 3);
}

/*
 * The instant that lies `back` virtual ns before the page's base, if the rate had always been the present one: so the
 * ticks of a timer that began then fall on the same virtual instants as natively. Where that is before the host's boot,
 * which no timer can be set to, it is as many intervals later as it must be. Callers hold the sequence lock.
 */
static u64 real_before(u64 back, u64 interval)
{
	u64 base = PAGE->real_base, most = scale_down(base - 1, PAGE->tdf_den, PAGE->tdf_num);
	if (back > most && interval) {
		u64 steps = (back - most - 1) / interval + 1;
		back -= (steps < back / interval ? steps : back / interval) * interval;
	}
	return base - scale_down(back < most ? back : most, PAGE->tdf_num, PAGE->tdf_den);
}

static void set_real(struct deadline *d)
{
	do {
		d->sequence = begin_read();
		i64 base = (i64)PAGE->virtual_base;
		if (d->virt >= (i64)FOREVER) {
			d->real = FOREVER;
		} else if (d->virt <= base) {
			d->real = real_before((u64)base - (u64)d->virt, d->interval);
		} else {
			u64 span = scale_up((u64)(d->virt - base), PAGE->tdf_num, PAGE->tdf_den);
			u64 real = PAGE->real_base + span;
			d->real = real >= FOREVER ? FOREVER : real;
		}
	} while (read_again(d->sequence));
}

struct deadline after(u64 virtual_ns)
{
	u64 now = virtual_now();
	struct deadline d = { .virt = (i64)(virtual_ns >= FOREVER - now ? FOREVER : now + virtual_ns) };
	set_real(&d);
	return d;
}

struct deadline first_tick(u64 virtual_ns, i64 offset, u64 interval)
{
	struct deadline d = { .interval = interval };
	if (virtual_ns >= FOREVER || __builtin_sub_overflow((i64)virtual_ns, offset, &d.virt))
		d.virt = (i64)FOREVER;
	/* MONOTONIC is the only clock that has none. */
	if (offset)
		d.virt -= date_off_of(d.virt);
	set_real(&d);
	return d;
}

struct deadline at(u64 virtual_ns, i64 offset)
{
	return first_tick(virtual_ns, offset, 0);
}

struct timespec real_rest(const struct deadline *d)
{
	u64 now = real_now();
	return from_ns(d->real > now ? d->real - now : 0);
}

u64 virtual_rest(const struct deadline *d)
{
	i64 now = (i64)virtual_now();
	return d->virt > now ? (u64)(d->virt - now) : 0;
}

u64 real_way(const struct deadline *d, u64 virtual_ns)
{
	if (!STATE->node_clock)
		return real_span(virtual_ns);
	/* A node that is ahead of the run's clock has to wait for that first. */
	struct timespec rest = real_rest(d);
	u64 ns = to_ns(&rest);
	return ns ? ns : 1;
}

u64 virtual_left(u64 real_ns)
{
	if (!real_ns || !STATE->node_clock)
		return virtual_span(real_ns);
	u64 ends = real_now() + real_ns, now = read_node();
	return ends > now ? virtual_span(ends - now) : 0;
}

bool changed_since(const struct deadline *d)
{
	return PAGE->sequence != d->sequence;
}

struct timespec renewed(struct deadline *d)
{
	set_real(d);
	struct timespec rest = real_rest(d);
	if (!rest.sec && !rest.nsec)
		rest.nsec = 1;
	return rest;
}

/*
 * The run's clock has passed the deadline, but the node's, which has waited for its core, is not there. On the
 * target the node would have waited for so long: a timer that is set for the deadline raises its clock to that.
 */
static void catch_up(const struct deadline *d)
{
	struct timespec real = from_ns(d->real);
	for (int i = 0; i < 8 && (i64)virtual_now() < d->virt; i++)
		syscall(__NR_clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, &real, 0);
}

/*
 * The cost to a node of a wait for the run's clock, in ns of a core, at most: two switches and a timer, with what the
 * kernel's programs do at each (docs/looks.md has the measurement). From this the others follow:
 */
#define WAIT_COSTS 5000
/* Who has computed for less than so long since its last look does nothing but look: it loses nothing by a wait. */
#define SPINS (2 * WAIT_COSTS)
/* Others compute, and look now and then: they lose a tenth at most. */
#define COMPUTES (10 * WAIT_COSTS)
/*
 * Real ns. A thread that sleeps has the core again after its timer's slack (50 us) and the shortest slice of another
 * (100 us), each of which may be as much longer: what is less is over before it is back.
 */
#define LEAST_LEAD 200000
/* Whatever the clock says, no look takes longer. */
#define LONGEST_LOOK NS

u64 lead_of_look(void)
{
	const volatile struct node_clock *c = (const volatile struct node_clock *)STATE->node_clock;
	/* A thread that takes turns on a CPU with others does not wait: they would have its turns. */
	if (!c || c->crowded)
		return 0;
	struct reading r = read_line(c);
	u64 worked = r.shown - STATE->looked, lead = r.shown > r.real ? r.shown - r.real : 0;
	STATE->looked = r.shown;
	u64 least = (SPINS * r.rate) >> NODE_CLOCK_RATE_BITS;
	if (worked >= least)
		least = (COMPUTES * r.rate) >> NODE_CLOCK_RATE_BITS;
	if (lead < least || lead < LEAST_LEAD)
		return 0;
	return lead < LONGEST_LOOK ? lead : LONGEST_LOOK;
}

bool not_yet(struct deadline *d)
{
	if (!changed_since(d)) {
		if (STATE->node_clock)
			catch_up(d);
		return false;
	}
	if ((i64)virtual_now() >= d->virt)
		return false;
	set_real(d);
	return true;
}
