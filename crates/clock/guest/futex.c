/* futex with a time-out. filter.c lets the others pass. */
#include "dilation.h"

#define FUTEX_WAIT 0
#define FUTEX_LOCK_PI 6
#define FUTEX_WAIT_BITSET 9
#define FUTEX_WAIT_REQUEUE_PI 11
#define FUTEX_LOCK_PI2 13
#define FUTEX_PRIVATE 128
#define FUTEX_CLOCK_REALTIME 256
#define FUTEX_BITSET_ANY 0xffffffff

/* Every wait becomes one with an absolute deadline on the real MONOTONIC clock. */
long call_futex(struct call *c)
{
	u64 op = c->a[1], command = op & 0x7f, bits = c->a[5];
	struct timespec t;
	if (!read_user(&t, c->a[3], sizeof t))
		return as_is(c);
	if (!valid(&t))
		return as_is(c);
	i64 offset = (op & FUTEX_CLOCK_REALTIME) || command == FUTEX_LOCK_PI ? PAGE->realtime_offset : 0;
	struct deadline d;
	switch (command) {
	case FUTEX_WAIT:
		command = FUTEX_WAIT_BITSET;
		bits = FUTEX_BITSET_ANY;
		d = after(to_ns(&t));
		break;
	case FUTEX_LOCK_PI:
		if (op & FUTEX_CLOCK_REALTIME)
			return syscall(c->nr, c->a[0], op, c->a[2], &t, c->a[4], c->a[5]); /* the kernel refuses it */
		command = FUTEX_LOCK_PI2;
		d = at(to_ns(&t), offset);
		break;
	default:
		d = at(to_ns(&t), offset);
	}
	long result;
	do {
		struct timespec real = from_ns(d.real);
		result = syscall(__NR_futex, c->a[0], command | (op & FUTEX_PRIVATE), c->a[2], &real, c->a[4], bits);
	} while (result == -ETIMEDOUT && not_yet(&d));
	return result;
}

/* futex_waitv(waiters, n, flags, timeout, clock) and futex_wait(addr, val, mask, flags, timeout, clock): absolute. */
static long newer(struct call *c, int timeout_at)
{
	i32 clock = (i32)c->a[timeout_at + 1];
	struct timespec t;
	u64 args[6];
	copy(args, c->a, sizeof args);
	if (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC)
		return -EINVAL;
	if (!read_user(&t, c->a[timeout_at], sizeof t))
		return as_is(c);
	if (!valid(&t))
		return as_is(c);
	struct deadline d = at(to_ns(&t), clock == CLOCK_REALTIME ? PAGE->realtime_offset : 0);
	args[timeout_at] = (u64)&t;
	args[timeout_at + 1] = CLOCK_MONOTONIC;
	long result;
	do {
		t = from_ns(d.real);
		result = syscall(c->nr, args[0], args[1], args[2], args[3], args[4], args[5]);
	} while (result == -ETIMEDOUT && not_yet(&d));
	return result;
}

long call_futex_waitv(struct call *c)
{
	return newer(c, 3);
}

long call_futex_wait(struct call *c)
{
	return newer(c, 4);
}
