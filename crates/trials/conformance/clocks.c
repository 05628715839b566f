/*
 * What every clock shows to have passed while the program sleeps for 200 ms, and what the CPU clocks show while it
 * computes for as long; and what passes from one second to the next of those that count seconds. Prints "NAME PASSED
 * NOMINAL GRAIN", in ns: a clock of that grain may show so much too little.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/times.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000ll
#define NOMINAL (200 * MS)
/* The kernel's slowest tick, and the unit of times(2) and /proc/uptime. */
#define TICK (10 * MS)

static void check(int ok, const char *what)
{
	if (!ok) {
		perror(what);
		exit(1);
	}
}

static long long read_clock(clockid_t clock)
{
	struct timespec t;
	check(clock_gettime(clock, &t) == 0, "clock_gettime");
	return t.tv_sec * 1000 * MS + t.tv_nsec;
}

static long long raw_clock(clockid_t clock)
{
	struct timespec t;
	check(syscall(SYS_clock_gettime, clock, &t) == 0, "SYS_clock_gettime");
	return t.tv_sec * 1000 * MS + t.tv_nsec;
}

static long long of_day(clockid_t unused)
{
	struct timeval t;
	(void)unused;
	gettimeofday(&t, 0);
	return (t.tv_sec * 1000000 + t.tv_usec) * 1000;
}

static long long ticks(clockid_t unused)
{
	struct tms t;
	(void)unused;
	return times(&t) * (1000 * MS / sysconf(_SC_CLK_TCK));
}

static long long proc_uptime(clockid_t unused)
{
	double seconds = -1;
	FILE *file = fopen("/proc/uptime", "r");
	(void)unused;
	check(file && fscanf(file, "%lf", &seconds) == 1, "/proc/uptime");
	fclose(file);
	return (long long)(seconds * 1000) * MS;
}

/* The time at which a file is made now. */
static long long stamp(clockid_t unused)
{
	struct stat s;
	char name[] = "stamp-XXXXXX";
	int file = mkstemp(name);
	(void)unused;
	check(file >= 0 && fstat(file, &s) == 0 && unlink(name) == 0 && close(file) == 0, name);
	return s.st_mtim.tv_sec * 1000 * MS + s.st_mtim.tv_nsec;
}

static long long used(clockid_t who)
{
	struct rusage u;
	getrusage(who, &u);
	return ((u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000 + u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1000;
}

struct meter {
	const char *name;
	long long (*read)(clockid_t);
	clockid_t clock;
	long long grain;
};

static const struct meter meters[] = {
	{ "CLOCK_REALTIME", read_clock, CLOCK_REALTIME, 0 },
	{ "CLOCK_MONOTONIC", read_clock, CLOCK_MONOTONIC, 0 },
	{ "CLOCK_MONOTONIC_RAW", read_clock, CLOCK_MONOTONIC_RAW, MS },
	{ "CLOCK_BOOTTIME", read_clock, CLOCK_BOOTTIME, 0 },
	{ "CLOCK_TAI", read_clock, CLOCK_TAI, 0 },
	{ "CLOCK_REALTIME_COARSE", read_clock, CLOCK_REALTIME_COARSE, TICK },
	{ "CLOCK_MONOTONIC_COARSE", read_clock, CLOCK_MONOTONIC_COARSE, TICK },
	{ "CLOCK_REALTIME, raw call", raw_clock, CLOCK_REALTIME, 0 },
	{ "CLOCK_MONOTONIC, raw call", raw_clock, CLOCK_MONOTONIC, 0 },
	{ "gettimeofday", of_day, 0, MS },
	{ "times", ticks, 0, TICK },
	{ "/proc/uptime", proc_uptime, 0, TICK },
	{ "time of a file", stamp, 0, TICK },
};
/* Never more than what passes; less on a busy machine. */
static const struct meter cpu_meters[] = {
	{ "CLOCK_PROCESS_CPUTIME_ID", read_clock, CLOCK_PROCESS_CPUTIME_ID, NOMINAL * 19 / 20 },
	{ "CLOCK_THREAD_CPUTIME_ID", read_clock, CLOCK_THREAD_CPUTIME_ID, NOMINAL * 19 / 20 },
	{ "getrusage", used, RUSAGE_SELF, NOMINAL * 19 / 20 },
};
#define METERS (sizeof meters / sizeof *meters)
#define CPU_METERS (sizeof cpu_meters / sizeof *cpu_meters)

static void show(const char *name, long long passed, long long nominal, long long grain)
{
	printf("%s\t%lld\t%lld\t%lld\n", name, passed, nominal, grain);
}

static void nap(void)
{
	nanosleep(&(struct timespec){ 0, NOMINAL }, 0);
}

/* The time that TCP says to have passed since something was sent. */
static void tcp(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct tcp_info info;
	socklen_t len = sizeof a, size = sizeof info;
	int server = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
	check(bind(server, (struct sockaddr *)&a, len) == 0 && listen(server, 1) == 0, "listen");
	check(getsockname(server, (struct sockaddr *)&a, &len) == 0, "getsockname");
	check(connect(client, (struct sockaddr *)&a, len) == 0 && write(client, "x", 1) == 1, "connect");
	nap();
	check(getsockopt(client, IPPROTO_TCP, TCP_INFO, &info, &size) == 0, "TCP_INFO");
	show("TCP_INFO", info.tcpi_last_data_sent * MS, NOMINAL, TICK);
	close(server);
	close(client);
}

static long whole_time(void)
{
	return time(0);
}

static long whole_uptime(void)
{
	struct sysinfo s;
	sysinfo(&s);
	return s.uptime;
}

/* From one second to the next, looked at every millisecond. */
static void seconds(const char *name, long (*read)(void))
{
	long long at[2];
	for (int i = 0; i < 2; i++) {
		long before = read();
		while (read() == before)
			usleep(1000);
		at[i] = read_clock(CLOCK_MONOTONIC);
	}
	show(name, at[1] - at[0], 1000 * MS, TICK);
}

int main(void)
{
	long long before[METERS];
	for (unsigned i = 0; i < METERS; i++)
		before[i] = meters[i].read(meters[i].clock);
	nap();
	/* In the same order: each has at least the whole nap between its two readings. */
	for (unsigned i = 0; i < METERS; i++)
		show(meters[i].name, meters[i].read(meters[i].clock) - before[i], NOMINAL, meters[i].grain);
	tcp();
	seconds("time", whole_time);
	seconds("sysinfo", whole_uptime);
	for (unsigned i = 0; i < CPU_METERS; i++) {
		long long start = cpu_meters[i].read(cpu_meters[i].clock), end = read_clock(CLOCK_MONOTONIC) + NOMINAL;
		while (read_clock(CLOCK_MONOTONIC) < end)
			;
		show(cpu_meters[i].name, cpu_meters[i].read(cpu_meters[i].clock) - start, NOMINAL, cpu_meters[i].grain);
	}
	return 0;
}
