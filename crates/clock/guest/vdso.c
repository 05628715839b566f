/* The functions that programs find through AT_SYSINFO_EHDR in place of the kernel's. */
#include "cpus.h"
#include "page.h"

#define VDSO __attribute__((visibility("default")))
#define ALIAS(name) __attribute__((weak, alias(#name), visibility("default")))

static __attribute__((noinline)) struct timespec read_date(void)
{
	return has_own_date() ? read_own_date() : read_split(true);
}

VDSO int __vdso_clock_gettime(i32 clock, struct timespec *t)
{
	i64 offset;
	if (__builtin_expect(clock == CLOCK_MONOTONIC, 1)) {
		*t = read_split(false);
	} else if (__builtin_expect(clock == CLOCK_REALTIME, 1)) {
		*t = read_date();
	} else if (wall_clock(clock, &offset)) {
		long missing = alarm_clock_missing(clock);
		if (missing)
			return (int)missing;
		u64 now = read_virtual();
		*t = from_ns(now + (u64)(offset ? offset + date_off_at(now) : 0));
	} else {
		/* Where the program judges its own calls: the one that the kernel's vDSO makes is one. */
		u64 kernels = STATE->sandboxed ? STATE->given.vdso_clock_gettime : 0;
		long result = kernels ? ((long (*)(i32, struct timespec *))kernels)(clock, t) :
					syscall(__NR_clock_gettime, clock, t);
		if (result || !cpu_clock(clock))
			return (int)result;
		*t = from_ns(cpu_virtual(to_ns(t)));
	}
	return 0;
}

VDSO int __vdso_gettimeofday(struct timeval *t, i32 *zone)
{
	if (t) {
		struct timespec now = read_date();
		*t = (struct timeval){ now.sec, (u32)now.nsec / 1000 };
	}
	if (zone)
		return (int)syscall(__NR_gettimeofday, 0, zone);
	return 0;
}

VDSO i64 __vdso_time(i64 *t)
{
	i64 now = read_date().sec;
	if (t)
		*t = now;
	return now;
}

VDSO int __vdso_clock_getres(i32 clock, struct timespec *t)
{
	return (int)syscall(__NR_clock_getres, clock, t);
}

VDSO long __vdso_getcpu(u32 *cpu, u32 *node, void *unused)
{
	if (STATE->given.cpus) {
		if (cpu)
			*cpu = current_cpu();
		if (node)
			*node = 0;
		return 0;
	}
	if (!STATE->given.vdso_getcpu)
		return syscall(__NR_getcpu, cpu, node, 0);
	return ((long (*)(u32 *, u32 *, void *))STATE->given.vdso_getcpu)(cpu, node, unused);
}

VDSO long __vdso_getrandom(void *buffer, u64 len, u32 flags, void *opaque, u64 opaque_len)
{
	if (!STATE->given.vdso_getrandom)
		return opaque_len == ~0ull ? -ENOSYS : syscall(__NR_getrandom, buffer, len, flags);
	return ((long (*)(void *, u64, u32, void *, u64))STATE->given.vdso_getrandom)(buffer, len, flags, opaque, opaque_len);
}

int clock_gettime(i32 clock, struct timespec *t) ALIAS(__vdso_clock_gettime);
int gettimeofday(struct timeval *t, i32 *zone) ALIAS(__vdso_gettimeofday);
i64 time(i64 *t) ALIAS(__vdso_time);
int clock_getres(i32 clock, struct timespec *t) ALIAS(__vdso_clock_getres);
long getcpu(u32 *cpu, u32 *node, void *unused) ALIAS(__vdso_getcpu);
long getrandom(void *b, u64 l, u32 f, void *o, u64 ol) ALIAS(__vdso_getrandom);
