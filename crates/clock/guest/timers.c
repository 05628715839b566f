/* Timers that the kernel keeps for a process: POSIX timers, itimers, alarm. */
#include "dilation.h"

#define ITIMER_REAL 0

/* timer_settime with TIMER_ABSTIME needs the clock; a clash in the table loses the older timer's. */
static void remember(i32 id, i32 clock)
{
	TIMERS[(u32)id % TIMER_CLOCKS] = (struct timer_clock){ id + 1, clock };
}

static i32 clock_of_timer(i32 id, const struct timespec *when)
{
	struct timer_clock known = TIMERS[(u32)id % TIMER_CLOCKS];
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
	long result = syscall(__NR_timer_create, wall ? CLOCK_MONOTONIC : clock, c->a[1], c->a[2]);
	if (result == 0 && read_user(&id, c->a[2], sizeof id))
		remember(id, clock);
	return result;
}

static struct itimerspec to_real(const struct itimerspec *s, bool cpu, bool absolute, i64 offset)
{
	u64 value = to_ns(&s->value), interval = to_ns(&s->interval), real;
	if (value == 0)
		real = 0;
	else if (cpu)
		real = cpu_real(value);
	else if (absolute)
		real = at(value, offset).real;
	else
		real = real_span(value);
	return (struct itimerspec){ from_ns(cpu ? cpu_real(interval) : real_span(interval)), from_ns(real) };
}

/* What is left of an armed timer is never 0. */
static u64 left(u64 real, bool cpu)
{
	u64 virt = cpu ? cpu_virtual(real) : virtual_span(real);
	return virt || !real ? virt : 1;
}

static struct itimerspec to_virtual(const struct itimerspec *s, bool cpu)
{
	return (struct itimerspec){ from_ns(left(to_ns(&s->interval), cpu)), from_ns(left(to_ns(&s->value), cpu)) };
}

long call_timer_settime(struct call *c)
{
	struct itimerspec s, old;
	i64 offset = 0;
	if (!c->a[2])
		return -EINVAL;
	if (!read_user(&s, c->a[2], sizeof s))
		return -EFAULT;
	if (!valid(&s.value) || !valid(&s.interval))
		return -EINVAL;
	i32 clock = clock_of_timer((i32)c->a[0], &s.value);
	bool cpu = cpu_clock(clock);
	wall_clock(clock, &offset);
	s = to_real(&s, cpu, c->a[1] & TIMER_ABSTIME, offset);
	long result = syscall(__NR_timer_settime, c->a[0], c->a[1], &s, &old);
	if (result == 0 && c->a[3]) {
		old = to_virtual(&old, cpu);
		if (!write_user(c->a[3], &old, sizeof old))
			return -EFAULT;
	}
	return result;
}

long call_timer_gettime(struct call *c)
{
	struct itimerspec s;
	struct timespec none = { 0, 0 };
	long result = syscall(__NR_timer_gettime, c->a[0], &s);
	if (result)
		return result;
	s = to_virtual(&s, cpu_clock(clock_of_timer((i32)c->a[0], &none)));
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

/* Microseconds, rounded up: an armed itimer never reads as 0, a time-out never comes early. */
static struct timeval tv_up(u64 ns)
{
	u64 us = ns / 1000 + (ns % 1000 != 0);
	return (struct timeval){ (i64)(us / 1000000), (i64)(us % 1000000) };
}

static struct itimerval it_virtual(const struct itimerval *s, bool cpu)
{
	return (struct itimerval){ tv_up(left(tv_ns(&s->interval), cpu)), tv_up(left(tv_ns(&s->value), cpu)) };
}

static struct timeval it_real(const struct timeval *t, bool cpu)
{
	return tv_up(cpu ? cpu_real(tv_ns(t)) : real_span(tv_ns(t)));
}

long call_setitimer(struct call *c)
{
	struct itimerval s = { { 0, 0 }, { 0, 0 } }, old;
	bool cpu = (i32)c->a[0] != ITIMER_REAL;
	/* A null pointer disarms: a misfeature that the kernel keeps. */
	if (c->a[1] && !read_user(&s, c->a[1], sizeof s))
		return -EFAULT;
	if (!good(&s.value) || !good(&s.interval))
		return -EINVAL;
	s = (struct itimerval){ it_real(&s.interval, cpu), it_real(&s.value, cpu) };
	long result = syscall(__NR_setitimer, c->a[0], &s, &old);
	if (result == 0 && c->a[2]) {
		old = it_virtual(&old, cpu);
		if (!write_user(c->a[2], &old, sizeof old))
			return -EFAULT;
	}
	return result;
}

long call_getitimer(struct call *c)
{
	struct itimerval s;
	long result = syscall(__NR_getitimer, c->a[0], &s);
	if (result)
		return result;
	s = it_virtual(&s, (i32)c->a[0] != ITIMER_REAL);
	return write_user(c->a[1], &s, sizeof s) ? 0 : -EFAULT;
}

long call_alarm(struct call *c)
{
	struct itimerval s = { { 0, 0 }, { (i64)(u32)c->a[0], 0 } }, old;
	s.value = it_real(&s.value, false);
	long result = syscall(__NR_setitimer, ITIMER_REAL, &s, &old);
	if (result)
		return result;
	old = it_virtual(&old, false);
	/* The kernel's own rounding: to the nearest second, but never to 0 while the alarm is on. */
	return old.value.sec + ((!old.value.sec && old.value.usec) || old.value.usec >= 500000);
}
