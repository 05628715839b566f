/*
 * Times of files. The file system stamps them with the host's date; a program is shown the virtual date of that
 * instant, and what it sets is stored so that it reads back the same. So a file is never younger than "now", two files
 * keep their order, and other nodes and the host, by their own clock, agree.
 */
#include "dilation.h"

#define UTIME_NOW 0x3fffffff
#define UTIME_OMIT 0x3ffffffe

/* struct stat and struct statx of x86-64: where their times are. */
#define STAT_TIMES 72 /* atim, mtim, ctim: 16 bytes each */
#define STATX_TIMES 64 /* atime, btime, ctime, mtime: i64, u32, and 4 bytes of nothing */

static bool to_date(i64 sec, i64 nsec, i64 *date)
{
	/* Beyond the years that 63 bits of ns can name there is no time to be dilated. */
	if (sec > (i64)(FOREVER / NS) - 1 || sec < -(i64)(FOREVER / NS) + 1)
		return false;
	*date = sec * (i64)NS + nsec;
	return true;
}

static struct timespec from_date(i64 date)
{
	i64 sec = date / (i64)NS, nsec = date % (i64)NS;
	return nsec < 0 ? (struct timespec){ sec - 1, nsec + (i64)NS } : (struct timespec){ sec, nsec };
}

struct timespec shown(struct timespec t)
{
	i64 date;
	return to_date(t.sec, t.nsec, &date) ? from_date(date_virtual(date)) : t;
}

/* The kernel has just written the structure, so it may be touched. */
static long show_stat(long result, u64 stat)
{
	if (result == 0) {
		struct timespec *times = (struct timespec *)(stat + STAT_TIMES);
		for (int i = 0; i < 3; i++)
			times[i] = shown(times[i]);
	}
	return result;
}

long call_stat(struct call *c)
{
	return show_stat(syscall(c->nr, c->a[0], c->a[1]), c->a[1]);
}

long call_newfstatat(struct call *c)
{
	return show_stat(syscall(__NR_newfstatat, c->a[0], c->a[1], c->a[2], c->a[3]), c->a[2]);
}

long call_statx(struct call *c)
{
	struct statx_time {
		i64 sec;
		u32 nsec;
		i32 unused;
	} *times = (struct statx_time *)(c->a[4] + STATX_TIMES);
	long result = syscall(__NR_statx, c->a[0], c->a[1], c->a[2], c->a[3], c->a[4]);
	for (int i = 0; result == 0 && i < 4; i++) {
		/* A file system without a time of birth leaves 0. */
		if (!times[i].sec && !times[i].nsec)
			continue;
		struct timespec t = shown((struct timespec){ times[i].sec, times[i].nsec });
		times[i].sec = t.sec;
		times[i].nsec = (u32)t.nsec;
	}
	return result;
}

static struct timespec stored(struct timespec t)
{
	i64 date;
	if (t.nsec == UTIME_NOW || t.nsec == UTIME_OMIT || (u64)t.nsec >= NS || !to_date(t.sec, t.nsec, &date))
		return t;
	return from_date(date_real(date));
}

static long set_times(u64 dir, u64 path, struct timespec atime, struct timespec mtime, u64 flags)
{
	struct timespec times[2] = { stored(atime), stored(mtime) };
	return syscall(__NR_utimensat, dir, path, times, flags);
}

long call_utimensat(struct call *c)
{
	struct timespec t[2];
	if (!read_user(t, c->a[2], sizeof t))
		return as_is(c);
	return set_times(c->a[0], c->a[1], t[0], t[1], c->a[3]);
}

/* utimes(path, times), futimesat(dir, path, times) */
long call_utimes(struct call *c)
{
	bool at = c->nr == __NR_futimesat;
	u64 dir = at ? c->a[0] : (u64)AT_FDCWD, path = at ? c->a[1] : c->a[0];
	struct timeval t[2];
	if (!read_user(t, at ? c->a[2] : c->a[1], sizeof t))
		return as_is(c);
	for (int i = 0; i < 2; i++)
		if ((u64)t[i].usec >= 1000000)
			return -EINVAL;
	return set_times(dir, path, (struct timespec){ t[0].sec, t[0].usec * 1000 },
			 (struct timespec){ t[1].sec, t[1].usec * 1000 }, 0);
}

long call_utime(struct call *c)
{
	i64 t[2];
	if (!read_user(t, c->a[1], sizeof t))
		return as_is(c);
	return set_times((u64)AT_FDCWD, c->a[0], (struct timespec){ t[0], 0 }, (struct timespec){ t[1], 0 }, 0);
}
