/* Timers that the kernel keeps for a process: POSIX timers, itimers, alarm. */
#include "dilation.h"

#define ITIMER_REAL 0

/* A clash in the table loses the older timer's. */
static struct timer_memory *memory_of(i32 id)
{
	return TIMERS + (u32)id % TIMERS_KNOWN;
}

static i32 clock_of_timer(i32 id, const struct timespec *when)
{
	struct timer_memory known = *memory_of(id);
	if (known.id_plus_1 == id + 1)
		return known.clock;
	/* Nobody is up for 17 years, and nobody's date is before 1987. */
	return when->sec > 536870912 ? CLOCK_REALTIME : CLOCK_MONOTONIC;
}

long call_timer_create(struct call *c)
{
	i32 clock = (i32)c->a[0], id;
	i64 offset;
	bool wall = clock != CLOCK_MONOTONIC_RAW && clock != CLOCK_MONOTONIC_COARSE && clock != CLOCK_REALTIME_COARSE &&
		    wall_clock(clock, &offset);
	if (clock == CLOCK_REALTIME_ALARM || clock == CLOCK_BOOTTIME_ALARM) {
		/* Whether the machine has the clock, and the program may use it. */
		long result = as_is(c);
		if (result || !read_user(&id, c->a[2], sizeof id))
			return result;
		syscall(__NR_timer_delete, id);
	}
	long result = syscall(__NR_timer_create, wall ? CLOCK_MONOTONIC : clock, c->a[1], c->a[2]);
	if (result == 0 && read_user(&id, c->a[2], sizeof id))
		*memory_of(id) = (struct timer_memory){ .id_plus_1 = id + 1, .clock = clock };
	return result;
}

/* The time left of an armed timer is never 0. */
static u64 left(u64 real, bool cpu)
{
	u64 virt = cpu ? cpu_virtual(real) : virtual_span(real);
	return virt || !real ? virt : 1;
}

/* Of a timer that is set, from the node's own clock on. */
static u64 still(u64 real, bool cpu)
{
	u64 virt = cpu ? cpu_virtual(real) : virtual_left(real);
	return virt || !real ? virt : 1;
}

static u64 least(u64 a, u64 b)
{
	return a < b ? a : b;
}

/*
 * As a program sees what the kernel tells of its timer: never more than it was set to, and the interval as it was set.
 */
static struct itimerspec to_virtual(const struct itimerspec *s, const struct timer_memory *known, bool cpu)
{
	u64 value = still(to_ns(&s->value), cpu), interval = to_ns(&s->interval);
	u64 each = left(interval, cpu);
	if (cpu && known) {
		if (value && known->value)
			value = least(value, known->value > known->interval ? known->value : known->interval);
		if (interval && cpu_real(known->interval) == interval)
			each = known->interval;
	}
	return (struct itimerspec){ from_ns(each), from_ns(value) };
}

/* The memory of a timer on a CPU clock, if there is any. */
static struct timer_memory *remembered(i32 id)
{
	struct timer_memory *known = memory_of(id);
	return known->id_plus_1 == id + 1 ? known : 0;
}

long call_timer_settime(struct call *c)
{
	struct itimerspec s, old;
	i64 offset = 0;
	if (!c->a[2])
		return -EINVAL;
	if (!read_user(&s, c->a[2], sizeof s))
		return as_is(c);
	if (!valid(&s.value) || !valid(&s.interval))
		return as_is(c);
	i32 clock = clock_of_timer((i32)c->a[0], &s.value);
	bool cpu = cpu_clock(clock);
	wall_clock(clock, &offset);
	u64 value = to_ns(&s.value), interval = to_ns(&s.interval);
	bool absolute = c->a[1] & TIMER_ABSTIME;
	struct deadline d = absolute ? first_tick(value, offset, interval) : after(value);
	u64 real = !value ? 0 : cpu ? cpu_real(value) : absolute ? d.real : real_way(&d, value);
	s = (struct itimerspec){ from_ns(cpu ? cpu_real(interval) : real_span(interval)), from_ns(real) };
	long result = syscall(__NR_timer_settime, c->a[0], c->a[1], &s, &old);
	while (result == 0 && value && !cpu && changed_since(&d)) {
		s.value = renewed(&d);
		s.interval = from_ns(real_span(interval));
		syscall(__NR_timer_settime, c->a[0], c->a[1] & ~(u64)TIMER_ABSTIME, &s, 0);
	}
	if (result)
		return result;
	struct timer_memory *known = remembered((i32)c->a[0]);
	old = to_virtual(&old, known, cpu);
	if (cpu && known) {
		/* The time left until an instant is not known here. */
		known->value = absolute ? FOREVER : value;
		known->interval = interval;
	}
	return c->a[3] && !write_user(c->a[3], &old, sizeof old) ? -EFAULT : 0;
}

long call_timer_gettime(struct call *c)
{
	struct itimerspec s;
	struct timespec none = { 0, 0 };
	long result = syscall(__NR_timer_gettime, c->a[0], &s);
	if (result)
		return result;
	s = to_virtual(&s, remembered((i32)c->a[0]), cpu_clock(clock_of_timer((i32)c->a[0], &none)));
	return write_user(c->a[1], &s, sizeof s) ? 0 : -EFAULT;
}

static bool good(const struct timeval *t)
{
	return t->sec >= 0 && (u64)t->usec < 1000000;
}

static u64 tv_ns(const struct timeval *t)
{
	struct timespec s = { t->sec, t->usec * 1000 };
	return to_ns(&s);
}

/* Microseconds, rounded up: a time-out never comes early. */
static struct timeval tv_up(u64 ns)
{
	u64 us = ns / 1000 + (ns % 1000 != 0);
	return (struct timeval){ (i64)(us / 1000000), (i64)(us % 1000000) };
}

/*
 * Down, as what was set was rounded up on its way to the kernel: so it reads back as it was. What is left of an armed
 * timer is not 0.
 */
static struct timeval tv_left(u64 ns, u64 virt)
{
	u64 us = virt / 1000;
	us += ns && !us;
	return (struct timeval){ (i64)(us / 1000000), (i64)(us % 1000000) };
}

static u64 tv_us(const struct timeval *t)
{
	return tv_ns(t) / 1000;
}

static struct timeval it_real(u64 ns, bool cpu)
{
	return tv_up(cpu ? cpu_real(ns) : real_span(ns));
}

/* On a CPU clock that is slower than the host's several virtual us are one real one: so the interval is remembered. */
static struct itimerval it_virtual(i32 which, const struct itimerval *s)
{
	bool cpu = which != ITIMER_REAL;
	struct itimerval seen = { tv_left(tv_ns(&s->interval), left(tv_ns(&s->interval), cpu)),
				  tv_left(tv_ns(&s->value), still(tv_ns(&s->value), cpu)) };
	u64 known = STATE->itimer_interval[which];
	struct timeval as_known = it_real(known * 1000, cpu);
	if (cpu && known && tv_us(&as_known) == tv_us(&s->interval))
		seen.interval = (struct timeval){ (i64)(known / 1000000), (i64)(known % 1000000) };
	return seen;
}

static long set_itimer(i32 which, const struct itimerval *virt, struct itimerval *old)
{
	bool cpu = which != ITIMER_REAL;
	u64 value = tv_ns(&virt->value), interval = tv_ns(&virt->interval);
	struct deadline d = after(value);
	struct itimerval s = { it_real(interval, cpu), value && !cpu ? tv_up(real_way(&d, value)) : it_real(value, cpu) };
	long result = syscall(__NR_setitimer, which, &s, old);
	while (result == 0 && value && !cpu && changed_since(&d)) {
		struct timespec rest = renewed(&d);
		s = (struct itimerval){ it_real(interval, cpu), tv_up(to_ns(&rest)) };
		syscall(__NR_setitimer, which, &s, 0);
	}
	if (result == 0) {
		*old = it_virtual(which, old);
		STATE->itimer_interval[which] = interval / 1000;
	}
	return result;
}

long call_setitimer(struct call *c)
{
	struct itimerval s = { { 0, 0 }, { 0, 0 } }, old;
	/* A null pointer disarms: a misfeature that the kernel keeps. */
	if (c->a[1] && !read_user(&s, c->a[1], sizeof s))
		return -EFAULT;
	if (!good(&s.value) || !good(&s.interval))
		return -EINVAL;
	long result = set_itimer((i32)c->a[0], &s, &old);
	return result == 0 && c->a[2] && !write_user(c->a[2], &old, sizeof old) ? -EFAULT : result;
}

long call_getitimer(struct call *c)
{
	struct itimerval s;
	long result = syscall(__NR_getitimer, c->a[0], &s);
	if (result)
		return result;
	s = it_virtual((i32)c->a[0], &s);
	return write_user(c->a[1], &s, sizeof s) ? 0 : -EFAULT;
}

long call_alarm(struct call *c)
{
	struct itimerval s = { { 0, 0 }, { (i64)(u32)c->a[0], 0 } }, old;
	long result = set_itimer(ITIMER_REAL, &s, &old);
	if (result)
		return result;
	/* The kernel's own rounding: to the nearest second, but never to 0 while the alarm is on. */
	return old.value.sec + ((!old.value.sec && old.value.usec) || old.value.usec >= 500000);
}
