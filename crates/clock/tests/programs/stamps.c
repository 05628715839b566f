/*
 * Times of files, by every call that there is: what was written is not younger than now, and what was set reads back.
 * In the directory that the argument names. Silent if all is well.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
#include <utime.h>

typedef struct timespec T;

static long ns(T t)
{
	return t.tv_sec * 1000000000l + t.tv_nsec;
}

static long now(void)
{
	T t;
	clock_gettime(CLOCK_REALTIME, &t);
	return ns(t);
}

static void check(int good, const char *what, long a, long b)
{
	if (!good)
		printf("%s: %ld, %ld (%+ld)\n", what, a, b, b - a);
}

static long mtime_by(int how, const char *path)
{
	struct stat s;
	struct statx x;
	int fd = open(path, O_RDONLY);
	long result = -1;
	switch (how) {
	case 0:
		result = stat(path, &s);
		break;
	case 1:
		result = lstat(path, &s);
		break;
	case 2:
		result = fstat(fd, &s);
		break;
	case 3:
		result = syscall(SYS_stat, path, &s);
		break;
	case 4:
		result = syscall(SYS_fstat, fd, &s);
		break;
	case 5:
		result = statx(AT_FDCWD, path, 0, STATX_ALL, &x);
		s.st_mtim = (T){ x.stx_mtime.tv_sec, x.stx_mtime.tv_nsec };
		break;
	}
	close(fd);
	check(result == 0, "a stat fails", how, errno);
	return ns(s.st_mtim);
}

static void reads(const char *path, long expected, const char *what)
{
	for (int how = 0; how < 6; how++)
		check(mtime_by(how, path) == expected, what, expected, mtime_by(how, path));
}

int main(int argc, char **argv)
{
	if (argc < 2 || chdir(argv[1]))
		return 2;
	/* The kernel stamps with the last tick's date: up to 10 ms ago. */
	const long TICK = 10000000;
	usleep(50000);
	long before = now(), last = 0;
	for (int i = 0; i < 50; i++) {
		int fd = open("f", O_CREAT | O_WRONLY | O_TRUNC, 0600);
		check(write(fd, "x", 1) == 1, "write", 0, 0);
		close(fd);
		for (int how = 0; how < 6; how++) {
			long stamp = mtime_by(how, "f"), after = now();
			check(stamp >= before - TICK, "a file from before it was written", before, stamp);
			check(stamp <= after, "a file from the future", after, stamp);
			check(stamp >= last, "files in the wrong order", last, stamp);
			last = stamp;
		}
		usleep(1000);
	}

	long day = 86400l * 1000000000;
	long wanted[] = { now() - day, now() - 1, now() - 12345678, now(), now() + 1, now() + 987654321, now() + day };
	for (int i = 0; i < 7; i++) {
		T t[2] = { { wanted[i] / 1000000000, wanted[i] % 1000000000 }, { wanted[i] / 1000000000, wanted[i] % 1000000000 } };
		check(utimensat(AT_FDCWD, "f", t, 0) == 0, "utimensat", errno, 0);
		reads("f", wanted[i], "utimensat, and back");
		long us = wanted[i] / 1000 * 1000;
		struct timeval v[2] = { { us / 1000000000, us % 1000000000 / 1000 }, { us / 1000000000, us % 1000000000 / 1000 } };
		check(syscall(SYS_utimes, "f", v) == 0, "utimes", errno, 0);
		reads("f", us, "utimes, and back");
		check(syscall(SYS_futimesat, AT_FDCWD, "f", v) == 0, "futimesat", errno, 0);
		reads("f", us, "futimesat, and back");
		struct utimbuf u = { wanted[i] / 1000000000, wanted[i] / 1000000000 };
		check(syscall(SYS_utime, "f", &u) == 0, "utime", errno, 0);
		reads("f", u.modtime * 1000000000, "utime, and back");
	}
	/* Values that are not times, and no times at all. */
	T special[2] = { { 0, UTIME_OMIT }, { 0, UTIME_NOW } };
	before = now();
	check(utimensat(AT_FDCWD, "f", special, 0) == 0, "UTIME_NOW", errno, 0);
	check(mtime_by(0, "f") >= before - TICK && mtime_by(0, "f") <= now(), "UTIME_NOW", before, mtime_by(0, "f"));
	T bad[2] = { { 0, 2000000000 }, { 0, 0 } };
	check(utimensat(AT_FDCWD, "f", bad, 0) == -1 && errno == EINVAL, "bad ns", errno, EINVAL);
	check(syscall(SYS_utimensat, AT_FDCWD, "f", 8, 0) == -1 && errno == EFAULT, "bad pointer", errno, EFAULT);
	check(utimensat(AT_FDCWD, "f", 0, 0) == 0, "no times", errno, 0);
	T old[2] = { { -5, 7 }, { 0, 0 } };
	check(utimensat(AT_FDCWD, "f", old, 0) == 0, "1969", errno, 0);
	reads("f", 0, "1970");
	check(syscall(SYS_stat, "f", 8) == -1 && errno == EFAULT, "stat to nowhere", errno, EFAULT);
	check(syscall(SYS_stat, "g", &before) == -1 && errno == ENOENT, "stat of nothing", errno, ENOENT);
	return 0;
}
