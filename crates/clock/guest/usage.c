/* CPU time used, as other calls tell it, and the limit on it. The kernel fills the buffers; we scale them in place. */
#include "dilation.h"

#define TICK (NS / 100) /* USER_HZ is 100 on every Linux */
#define RLIM_INFINITY (~0ull)

static struct timeval tv_virtual(const struct timeval *t)
{
	u64 ns = cpu_virtual((u64)t->sec * NS + (u64)t->usec * 1000);
	return (struct timeval){ (i64)(ns / NS), (i64)(ns % NS / 1000) };
}

/* The first two fields of struct rusage: user and system time. */
static void scale_usage(u64 at)
{
	struct timeval used[2];
	if (!at || !read_user(used, at, sizeof used))
		return;
	used[0] = tv_virtual(&used[0]);
	used[1] = tv_virtual(&used[1]);
	write_user(at, used, sizeof used);
}

long call_getrusage(struct call *c)
{
	long result = syscall(__NR_getrusage, c->a[0], c->a[1]);
	if (result == 0)
		scale_usage(c->a[1]);
	return result;
}

long call_wait4(struct call *c)
{
	long result = STATE->traces ? wait_as_tracer(c, (void *)c->a[3]) :
				      syscall(__NR_wait4, c->a[0], c->a[1], c->a[2], c->a[3]);
	if (result > 0)
		scale_usage(c->a[3]);
	return result;
}

/* It gives 0 with a child and without one, and only with one is the usage written: then to the program's, too. */
long call_waitid(struct call *c)
{
	struct {
		struct timeval used[2];
		i64 rest[14];
	} usage;
	usage.used[0].usec = -1;
	long result = STATE->traces ? wait_as_tracer(c, &usage) :
				      syscall(__NR_waitid, c->a[0], c->a[1], c->a[2], c->a[3], &usage);
	if (result || !c->a[4] || usage.used[0].usec < 0)
		return result;
	usage.used[0] = tv_virtual(&usage.used[0]);
	usage.used[1] = tv_virtual(&usage.used[1]);
	return write_user(c->a[4], &usage, sizeof usage) ? 0 : -EFAULT;
}

long call_times(struct call *c)
{
	i64 used[4];
	if (c->a[0]) {
		long result = syscall(__NR_times, c->a[0]);
		if (result == -EFAULT)
			return result;
		if (!read_user(used, c->a[0], sizeof used))
			return -EFAULT;
		for (int i = 0; i < 4; i++)
			used[i] = (i64)(cpu_virtual((u64)used[i] * TICK) / TICK);
		write_user(c->a[0], used, sizeof used);
	}
	return (long)(virtual_now() / TICK);
}

static u64 limit_real(u64 seconds)
{
	if (seconds >= FOREVER / NS)
		return seconds;
	u64 ns = cpu_real(seconds * NS);
	/* Up to a whole second, but for the nanosecond that cpu_real has rounded up. */
	return ns >= FOREVER ? RLIM_INFINITY : (ns + NS - 2) / NS;
}

static u64 limit_virtual(u64 seconds)
{
	return seconds >= FOREVER / NS ? seconds : (cpu_virtual(seconds * NS) + NS / 2) / NS;
}

/* getrlimit, setrlimit, prlimit64 of RLIMIT_CPU. */
long call_rlimit(struct call *c)
{
	/* Only in prlimit64 may the pointers be missing. */
	bool both = c->nr == __NR_prlimit64;
	bool set = both ? c->a[2] != 0 : c->nr == __NR_setrlimit, get = both ? c->a[3] != 0 : !set;
	u64 value[2], old[2];
	if (set) {
		if (!read_user(value, c->a[both ? 2 : 1], sizeof value))
			return as_is(c);
		value[0] = limit_real(value[0]);
		value[1] = limit_real(value[1]);
	}
	long result = syscall(__NR_prlimit64, both ? c->a[0] : 0, 0 /* RLIMIT_CPU */, set ? value : 0, get ? old : 0);
	if (result == 0 && get) {
		old[0] = limit_virtual(old[0]);
		old[1] = limit_virtual(old[1]);
		if (!write_user(c->a[both ? 3 : 1], old, sizeof old))
			return -EFAULT;
	}
	return result;
}
