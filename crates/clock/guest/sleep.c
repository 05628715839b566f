/* Calls that sleep until a time, or wait for something with a time-out and no file descriptors. */
#include "dilation.h"

/* Sleeps to the deadline. 0 or what the kernel says. */
static long sleep_until(struct deadline *d)
{
	long result;
	do {
		struct timespec real = from_ns(d->real);
		result = syscall(__NR_clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, &real, 0);
	} while (result == 0 && not_yet(d));
	return result;
}

static long sleep_for(struct call *c, u64 request, u64 remain)
{
	struct timespec t;
	if (!read_user(&t, request, sizeof t))
		return as_is(c);
	if (!valid(&t))
		return as_is(c);
	struct deadline d = after(to_ns(&t));
	long result = sleep_until(&d);
	if (result == -EINTR && remain) {
		t = from_ns(virtual_rest(&d));
		if (!write_user(remain, &t, sizeof t))
			return -EFAULT;
	}
	return result;
}

long call_nanosleep(struct call *c)
{
	return sleep_for(c, c->a[0], c->a[1]);
}

static long cpu_sleep(struct call *c)
{
	struct timespec t, rest;
	if (!read_user(&t, c->a[2], sizeof t))
		return as_is(c);
	if (!valid(&t))
		return as_is(c);
	t = from_ns(cpu_real(to_ns(&t)));
	bool relative = !(c->a[1] & TIMER_ABSTIME);
	long result = syscall(__NR_clock_nanosleep, c->a[0], c->a[1], &t, &rest);
	if (result == -EINTR && relative && c->a[3]) {
		rest = from_ns(cpu_virtual(to_ns(&rest)));
		if (!write_user(c->a[3], &rest, sizeof rest))
			return -EFAULT;
	}
	return result;
}

long call_clock_nanosleep(struct call *c)
{
	i32 clock = (i32)c->a[0];
	i64 offset;
	if (cpu_clock(clock))
		return cpu_sleep(c);
	/* Nobody can sleep on these: let the kernel say so. */
	if (clock == CLOCK_MONOTONIC_RAW || clock == CLOCK_MONOTONIC_COARSE || clock == CLOCK_REALTIME_COARSE ||
	    !wall_clock(clock, &offset))
		return syscall(__NR_clock_nanosleep, c->a[0], c->a[1], c->a[2], c->a[3]);
	struct timespec t;
	if (!read_user(&t, c->a[2], sizeof t))
		return as_is(c);
	if (!valid(&t))
		return as_is(c);
	if (clock == CLOCK_REALTIME_ALARM || clock == CLOCK_BOOTTIME_ALARM) {
		/* Long past: whether the machine has the clock, and the program may use it. */
		static const struct timespec past = { 0, 1 };
		long result = syscall(__NR_clock_nanosleep, clock, c->a[1] | TIMER_ABSTIME, &past, 0);
		if (result)
			return result;
	}
	if (!(c->a[1] & TIMER_ABSTIME))
		return sleep_for(c, c->a[2], c->a[3]);
	struct deadline d = at(to_ns(&t), offset);
	return sleep_until(&d);
}

long call_rt_sigtimedwait(struct call *c)
{
	struct timespec t;
	if (!read_user(&t, c->a[2], sizeof t))
		return as_is(c);
	if (!valid(&t))
		return as_is(c);
	struct deadline d = after(to_ns(&t));
	long result;
	do {
		struct timespec rest = to_ns(&t) ? real_rest(&d) : t;
		result = syscall(__NR_rt_sigtimedwait, c->a[0], c->a[1], &rest, c->a[3]);
	} while (result == -EAGAIN && not_yet(&d));
	return result;
}

/* mq_timedsend and mq_timedreceive: an absolute REALTIME, which the kernel counts on the host's clock. */
long call_mq_timed(struct call *c)
{
	struct timespec t, realtime;
	if (!read_user(&t, c->a[4], sizeof t))
		return as_is(c);
	if (!valid(&t))
		return as_is(c);
	struct deadline d = at(to_ns(&t), PAGE->realtime_offset);
	long result;
	do {
		syscall(__NR_clock_gettime, CLOCK_REALTIME, &realtime);
		struct timespec rest = real_rest(&d);
		u64 host = to_ns(&realtime) + to_ns(&rest);
		t = from_ns(host > FOREVER ? FOREVER : host);
		result = syscall(c->nr, c->a[0], c->a[1], c->a[2], c->a[3], &t);
		/* The host's clock may have been set forward. */
	} while (result == -ETIMEDOUT && (not_yet(&d) || virtual_rest(&d) != 0));
	return result;
}

long call_semtimedop(struct call *c)
{
	struct timespec t;
	if (!read_user(&t, c->a[3], sizeof t))
		return as_is(c);
	if (!valid(&t))
		return as_is(c);
	struct deadline d = after(to_ns(&t));
	long result;
	do {
		struct timespec rest = real_rest(&d);
		result = syscall(__NR_semtimedop, c->a[0], c->a[1], c->a[2], &rest);
	} while (result == -EAGAIN && not_yet(&d));
	return result;
}

/* Trapped for its time-out, or for timestamps (packets.c). */
long call_recvmmsg(struct call *c)
{
	struct timespec t, rest;
	struct deadline d;
	if (c->a[4]) {
		if (!read_user(&t, c->a[4], sizeof t))
			return as_is(c);
		if (!valid(&t))
			return as_is(c);
		d = after(to_ns(&t));
		rest = real_rest(&d);
	}
	long result = syscall(__NR_recvmmsg, c->a[0], c->a[1], c->a[2], c->a[3], c->a[4] ? &rest : 0);
	if (result <= 0)
		return result;
	show_messages(c->a[1], result);
	if (c->a[4]) {
		t = from_ns(virtual_rest(&d));
		if (!write_user(c->a[4], &t, sizeof t))
			return -EFAULT;
	}
	return result;
}

static long io_events(struct call *c, u64 sigset)
{
	struct timespec t;
	if (!read_user(&t, c->a[4], sizeof t))
		return as_is(c);
	if (!valid(&t))
		return as_is(c);
	struct deadline d = after(to_ns(&t));
	long result;
	do {
		struct timespec rest = real_rest(&d);
		result = syscall(c->nr, c->a[0], c->a[1], c->a[2], c->a[3], &rest, sigset);
	} while (result == 0 && (i64)c->a[1] > 0 && not_yet(&d));
	return result;
}

long call_io_getevents(struct call *c)
{
	return io_events(c, 0);
}

long call_io_pgetevents(struct call *c)
{
	struct {
		u64 mask, size;
	} set, own;
	u64 mask;
	u64 sigset = 0;
	if (c->a[5]) {
		if (!read_user(&set, c->a[5], sizeof set))
			return as_is(c);
		if (set.mask) {
			long wrong = read_mask(&mask, set.mask, set.size);
			if (wrong)
				return wrong;
			own.mask = (u64)&mask;
			own.size = 8;
			sigset = (u64)&own;
		}
	}
	if (!c->a[4])
		return syscall(c->nr, c->a[0], c->a[1], c->a[2], c->a[3], 0, sigset);
	return io_events(c, sigset);
}
