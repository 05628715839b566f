/*
 * timerfd. A descriptor outlives the process that made it, so its clock cannot be kept here. The kernel keeps it:
 * virtual REALTIME timers are made on the kernel's BOOTTIME and all others on MONOTONIC; both run alike on a host that
 * does not sleep, and /proc/self/fdinfo tells them apart.
 */
#include "dilation.h"

#define TFD_TIMER_ABSTIME 1

long call_timerfd_create(struct call *c)
{
	i32 clock = (i32)c->a[0];
	if (clock == CLOCK_REALTIME_ALARM || clock == CLOCK_BOOTTIME_ALARM) {
		/* Whoever may not wake the machine may not have one. */
		long fd = syscall(__NR_timerfd_create, clock, c->a[1]);
		if (fd < 0)
			return fd;
		syscall(__NR_close, fd);
	}
	switch (clock) {
	case CLOCK_REALTIME:
	case CLOCK_REALTIME_ALARM:
		return syscall(__NR_timerfd_create, CLOCK_BOOTTIME, c->a[1]);
	case CLOCK_BOOTTIME:
	case CLOCK_BOOTTIME_ALARM:
		return syscall(__NR_timerfd_create, CLOCK_MONOTONIC, c->a[1]);
	default:
		return syscall(__NR_timerfd_create, clock, c->a[1]);
	}
}

/* Whether `fd` counts virtual REALTIME. Without /proc, by the size of the number, as in timers.c. */
static bool counts_realtime(i32 fd, const struct timespec *when)
{
	char path[40] = "/proc/self/fdinfo/", text[256], digits[12] = { 0 };
	char *number = decimal(digits + 11, (u32)fd);
	copy(path + 18, number, (u64)(digits + 12 - number));
	long info = syscall(__NR_openat, AT_FDCWD, path, O_CLOEXEC);
	long len = -1;
	if (info >= 0) {
		len = syscall(__NR_read, info, text, sizeof text);
		syscall(__NR_close, info);
	}
	static const char key[] = "clockid: ";
	for (long i = 0; i + (long)sizeof key <= len; i++) {
		long k = 0;
		while (k < (long)sizeof key - 1 && text[i + k] == key[k])
			k++;
		if (k == (long)sizeof key - 1)
			return text[i + k] == '0' + CLOCK_BOOTTIME;
	}
	return when->sec > 536870912;
}

/* How far the host's BOOTTIME, on which virtual REALTIME timers are, is ahead of its MONOTONIC. */
static u64 slept(void)
{
	struct timespec boot, mono;
	syscall(__NR_clock_gettime, CLOCK_MONOTONIC, &mono);
	syscall(__NR_clock_gettime, CLOCK_BOOTTIME, &boot);
	u64 ahead = to_ns(&boot) - to_ns(&mono);
	/* Read one after the other, they differ by the time that it takes. */
	return ahead < 1000000 ? 0 : ahead;
}

/* As the kernel's struct itimerspec, in virtual time; an armed timer never reads as 0. */
static struct itimerspec seen(const struct itimerspec *s)
{
	u64 value = to_ns(&s->value), span = virtual_left(value);
	return (struct itimerspec){ from_ns(virtual_span(to_ns(&s->interval))), from_ns(span || !value ? span : 1) };
}

long call_timerfd_settime(struct call *c)
{
	struct itimerspec s, old;
	if (!read_user(&s, c->a[2], sizeof s))
		return as_is(c);
	if (!valid(&s.value) || !valid(&s.interval))
		return as_is(c);
	u64 value = to_ns(&s.value), interval = to_ns(&s.interval);
	bool absolute = value && (c->a[1] & TFD_TIMER_ABSTIME);
	bool realtime = absolute && counts_realtime((i32)c->a[0], &s.value);
	struct deadline d = absolute ? first_tick(value, realtime ? PAGE->realtime_offset : 0, interval) : after(value);
	/* TFD_TIMER_CANCEL_ON_SET: the virtual date is never set, so nothing ever cancels; the other flags pass. */
	u64 flags = c->a[1] & ~2ull;
	s = (struct itimerspec){ from_ns(real_span(interval)),
				 from_ns(!value    ? 0 :
					 !absolute ? real_way(&d, value) :
					 realtime  ? d.real + slept() :
						     d.real) };
	long result = syscall(__NR_timerfd_settime, c->a[0], flags, &s, &old);
	while (result == 0 && value && changed_since(&d)) {
		s.value = renewed(&d);
		s.interval = from_ns(real_span(interval));
		syscall(__NR_timerfd_settime, c->a[0], flags & ~(u64)TFD_TIMER_ABSTIME, &s, 0);
	}
	if (result == 0 && c->a[3]) {
		old = seen(&old);
		if (!write_user(c->a[3], &old, sizeof old))
			return -EFAULT;
	}
	return result;
}

long call_timerfd_gettime(struct call *c)
{
	struct itimerspec s;
	long result = syscall(__NR_timerfd_gettime, c->a[0], &s);
	if (result)
		return result;
	s = seen(&s);
	return write_user(c->a[1], &s, sizeof s) ? 0 : -EFAULT;
}
