/* Clocks read by system call rather than through the vDSO. */
#include "page.h"

static u64 date_now(void)
{
	u64 now = virtual_now();
	return now + (u64)(PAGE->realtime_offset + date_off_at(now));
}

long call_clock_gettime(struct call *c)
{
	i32 clock = (i32)c->a[0];
	i64 offset;
	struct timespec t;
	long missing = alarm_clock_missing(clock);
	if (missing)
		return missing;
	if (wall_clock(clock, &offset)) {
		u64 now = virtual_now();
		t = from_ns(now + (u64)(offset ? offset + date_off_at(now) : 0));
	} else {
		/* Unknown clocks are refused by the kernel; a device's clock (PTP) is not ours to scale. */
		if (!cpu_clock(clock))
			return syscall(__NR_clock_gettime, c->a[0], c->a[1]);
		long result = syscall(__NR_clock_gettime, c->a[0], &t);
		if (result)
			return result;
		t = from_ns(cpu_virtual(to_ns(&t)));
	}
	return write_user(c->a[1], &t, sizeof t) ? 0 : -EFAULT;
}

long call_gettimeofday(struct call *c)
{
	if (c->a[0]) {
		u64 us = date_now() / 1000;
		struct timeval t = { (i64)(us / 1000000), (i64)(us % 1000000) };
		if (!write_user(c->a[0], &t, sizeof t))
			return -EFAULT;
	}
	return c->a[1] ? syscall(__NR_gettimeofday, 0, c->a[1]) : 0;
}

long call_time(struct call *c)
{
	i64 now = (i64)(date_now() / NS);
	if (c->a[0] && !write_user(c->a[0], &now, sizeof now))
		return -EFAULT;
	return now;
}

long call_sysinfo(struct call *c)
{
	long result = syscall(__NR_sysinfo, c->a[0]);
	i64 uptime = (i64)((virtual_now() + NS - 1) / NS); /* the kernel rounds up */
	if (result == 0 && !write_user(c->a[0], &uptime, sizeof uptime)) /* its first field */
		return -EFAULT;
	return result;
}

/* struct timex: what is written here; the rest is the kernel's business. */
#define TIMEX_SIZE 208
#define TIMEX_MODES 0
#define TIMEX_OFFSET 8
#define TIMEX_STATUS 40
#define TIMEX_TIME 72
#define STA_NANO 0x2000
/* adjtime without a new value asks how much is left of the last. */
#define ADJ_OFFSET_SS_READ 0xa001
/* adjtime's flag, which goes with the lowest bit only. */
#define ADJ_ADJTIME 0x8000
#define ADJ_OFFSET_SINGLESHOT 0x0001

/* The clock may be asked, and never set: so nothing is ever left. */
static long ask(u64 nr, u64 clock, u64 timex)
{
	u32 modes;
	i32 status;
	if (!is_readable(timex, TIMEX_SIZE) || !read_user(&modes, timex + TIMEX_MODES, sizeof modes))
		return -EFAULT;
	if ((modes & ADJ_ADJTIME) && !(modes & ADJ_OFFSET_SINGLESHOT))
		return -EINVAL;
	if (modes != 0 && modes != ADJ_OFFSET_SS_READ)
		return -EPERM;
	long result = nr == __NR_adjtimex ? syscall(nr, timex) : syscall(nr, clock, timex);
	if (result < 0 || !read_user(&status, timex + TIMEX_STATUS, sizeof status))
		return result;
	u64 now = date_now();
	struct timeval t = { (i64)(now / NS), (i64)(status & STA_NANO ? now % NS : now % NS / 1000) };
	write_user(timex + TIMEX_TIME, &t, sizeof t);
	i64 nothing = 0;
	if (modes == ADJ_OFFSET_SS_READ)
		write_user(timex + TIMEX_OFFSET, &nothing, sizeof nothing);
	return result;
}

long call_adjtimex(struct call *c)
{
	return ask(c->nr, 0, c->a[0]);
}

long call_clock_adjtime(struct call *c)
{
	/* The others cannot be adjusted, which the kernel says, or are a device's. */
	if ((i32)c->a[0] != CLOCK_REALTIME)
		return syscall(__NR_clock_adjtime, c->a[0], c->a[1]);
	return ask(c->nr, CLOCK_REALTIME, c->a[1]);
}

/* The kernel's refusal of a date, before it asks who sets it. */
static long refuse_date(i64 sec, i64 nsec)
{
	/* The last date that it takes is 30 years before its ns overflow. */
	return sec < 0 || (u64)nsec >= NS || sec >= (i64)(FOREVER / NS) - 30 * 365 * 86400l ? -EINVAL : -EPERM;
}

/*
 * The host's clocks are not the node's to set: EPERM, as without CAP_SYS_TIME, where the kernel finds nothing else
 * wrong.
 */
long call_clock_settime(struct call *c)
{
	struct timespec t;
	i32 clock = (i32)c->a[0];
	/*
	 * An address that no process has: nothing is set, and the kernel tells a clock that could be from one that could
	 * not.
	 */
	long result = syscall(__NR_clock_settime, clock, -4096);
	if (result != -EFAULT || !read_user(&t, c->a[1], sizeof t))
		return result;
	/* It says no itself, or that there is no such process. */
	if (cpu_clock(clock))
		return syscall(__NR_clock_settime, clock, &t);
	/* A negative one is a device's; or there is no such device. */
	result = clock < 0 ? syscall(__NR_clock_getres, clock, 0) : 0;
	if (result)
		return result;
	return refuse_date(t.sec, t.nsec);
}

long call_settimeofday(struct call *c)
{
	struct timeval t;
	if (c->a[0]) {
		if (!read_user(&t, c->a[0], sizeof t))
			return -EFAULT;
		if (t.usec < 0 || t.usec > 1000000)
			return -EINVAL;
	}
	if (c->a[1] && !is_readable(c->a[1], 8))
		return -EFAULT;
	if (c->a[0])
		return refuse_date(t.sec, t.usec * 1000);
	/* With neither, nothing is set, but who may not is told so. */
	return c->a[1] ? -EPERM : syscall(__NR_settimeofday, 0, 0);
}
