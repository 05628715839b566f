/*
 * /proc/uptime and /proc/PID/stat (and that of a thread), in virtual time: whoever opens one gets a copy of its text,
 * made at that moment, in which the times are translated. So the age of a process is the same whether it is computed
 * from /proc or from the process's own clock. And where a program sees other CPUs than the host's, the same of what
 * /proc/PID/stat and /proc/PID/status tell of these. And /proc/PID/auxv, as auxv.c has it.
 *
 * The file systems of a node could be bound over these two, but not without root, and something would have to answer
 * for as long as the node lives. This costs an open for reading some µs and nothing else. What is read again from the
 * same descriptor is what was true when it was opened.
 */
#include "cpus.h"

#define F_DUPFD 0
#define F_DUPFD_CLOEXEC 1030
#define TICK 10000000ull /* of /proc: USER_HZ is 100 everywhere */
#define ROOM 0x1000

/* Past `word`, or 0. */
static const char *past(const char *text, const char *word)
{
	while (*word)
		if (*text++ != *word++)
			return 0;
	return text;
}

enum file { OTHER, UPTIME, STAT, STATUS, AUXV };

/* The file that a path may lead to, by its last part. */
static enum file name(const char *path)
{
	const char *last = path, *rest;
	for (const char *p = path; *p; p++)
		if (*p == '/')
			last = p + 1;
	if ((rest = past(last, "uptime")) && !*rest)
		return UPTIME;
	if (STATE->given.cpus && (rest = past(last, "status")) && !*rest)
		return STATUS;
	if ((rest = past(last, "auxv")) && !*rest)
		return AUXV;
	return (rest = past(last, "stat")) && !*rest ? STAT : OTHER;
}

/* However it was named, whether the file is in /proc. */
static bool in_proc(long fd)
{
	u64 about[15]; /* struct statfs: the type first */
	return syscall(__NR_fstatfs, fd, about) == 0 && about[0] == 0x9fa0 /* PROC_SUPER_MAGIC */;
}

struct text {
	char *at, *end;
};

static void put(struct text *t, char byte)
{
	if (t->at < t->end)
		*t->at++ = byte;
}

static void put_number(struct text *t, u64 n)
{
	char digits[20], *end = digits + sizeof digits;
	for (char *p = decimal(end, n); p < end; p++)
		put(t, *p);
}

static const char *get_number(const char *p, u64 *n)
{
	for (*n = 0; *p >= '0' && *p <= '9'; p++)
		*n = *n * 10 + (u64)(*p - '0');
	return p;
}

/* "seconds.hundredths" of this many hundredths, each of 1/100 s. */
static void put_hundredths(struct text *t, u64 n)
{
	put_number(t, n / 100);
	put(t, '.');
	put_number(t, n / 10 % 10);
	put_number(t, n % 10);
}

static const char *get_hundredths(const char *p, u64 *n)
{
	u64 whole, part;
	p = get_number(p, &whole);
	p = get_number(*p == '.' ? p + 1 : p, &part);
	*n = whole * 100 + part;
	return p;
}

/* How long this host has been up, and how long its cores have been idle together. */
static void uptime(const char *from, struct text *to)
{
	u64 up, idle, now = virtual_now() / TICK;
	from = get_hundredths(from, &up);
	get_hundredths(*from ? from + 1 : from, &idle);
	put_hundredths(to, now);
	put(to, ' ');
	put_hundredths(to, up ? idle / up * now + idle % up * now / up : 0);
	put(to, '\n');
}

/* proc(5): CPU times are fields 14 to 17, the start is 22, the CPU 39. The name, field 2, may hold anything. */
static void stat(const char *from, const char *end, struct text *to)
{
	const char *p = end, *name_end;
	while (p > from && *p != ')')
		p--;
	name_end = p;
	for (p = from; p < name_end; p++)
		put(to, *p);
	struct timespec boot, mono;
	syscall(__NR_clock_gettime, CLOCK_BOOTTIME, &boot);
	syscall(__NR_clock_gettime, CLOCK_MONOTONIC, &mono);
	i64 slept = (i64)(to_ns(&boot) - to_ns(&mono));
	u64 tid;
	get_number(from, &tid);
	for (int field = 2; p < end;) {
		u64 n;
		bool cpu = STATE->given.cpus && field == 39;
		bool time = (field >= 14 && field <= 17) || field == 22;
		if ((!time && !cpu) || *p < '0' || *p > '9') {
			field += *p == ' ';
			put(to, *p++);
			continue;
		}
		p = get_number(p, &n);
		if (cpu) {
			put_number(to, last_cpu_of((i32)tid));
			continue;
		}
		n *= TICK;
		put_number(to, (field == 22 ? (u64)past_virtual((i64)n - slept) : cpu_virtual(n)) / TICK);
	}
}

/* A mask of CPUs as the kernel writes it: words of 32 bits, the last one first. */
static void put_mask(struct text *to, const struct cpu_set *set)
{
	u32 cpus = (u32)STATE->given.cpus;
	for (u32 digit = (cpus + 3) / 4; digit--;) {
		put(to, "0123456789abcdef"[set->words[digit / 16] >> (digit % 16 * 4) & 15]);
		if (digit && digit % 8 == 0)
			put(to, ',');
	}
}

/* Writes a set as a list: 0-2,5 */
static void put_list(struct text *to, const struct cpu_set *set)
{
	bool more = false;
	for (u32 cpu = 0, last; cpu < STATE->given.cpus; cpu = last + 1) {
		for (last = cpu; last < STATE->given.cpus && set->words[last / 64] >> last % 64 & 1; last++)
			;
		if (last == cpu)
			continue;
		if (more)
			put(to, ',');
		more = true;
		put_number(to, cpu);
		if (last > cpu + 1) {
			put(to, '-');
			put_number(to, last - 1);
		}
	}
}

/* Which CPUs a thread may use, in two of the lines. */
static void status(const char *from, const char *end, struct text *to)
{
	u64 tid = 0;
	while (from < end) {
		const char *value = past(from, "Pid:\t");
		if (value)
			get_number(value, &tid);
		bool mask = (value = past(from, "Cpus_allowed:\t")), list = !mask && (value = past(from, "Cpus_allowed_list:\t"));
		if (mask || list) {
			struct cpu_set set = cpus_of((i32)tid);
			while (from < value)
				put(to, *from++);
			if (mask)
				put_mask(to, &set);
			else
				put_list(to, &set);
			while (from < end && *from != '\n')
				from++;
		}
		while (from < end && *from != '\n')
			put(to, *from++);
		if (from < end)
			put(to, *from++);
	}
}

static void vector(char *from, long len, struct text *to)
{
	show_vector((u64 *)from, (u64)len);
	while (len--)
		put(to, *from++);
}

static bool contains(const char *from, const char *end, char byte)
{
	while (from < end && *from != byte)
		from++;
	return from < end;
}

/* A descriptor of the translated text, in the place of `fd`; `fd` itself if that cannot be made. */
static long translated(long fd, enum file file, bool cloexec)
{
	long memory = syscall(__NR_mmap, 0, 2 * ROOM, 3 /* READ | WRITE */, 0x22 /* PRIVATE | ANONYMOUS */, -1, 0);
	if (memory < 0 && memory > -4096)
		return fd;
	char *from = (char *)memory;
	struct text to = { from + ROOM, from + 2 * ROOM };
	long result = fd, len = syscall(__NR_pread64, fd, from, ROOM - 1, 0);
	/* /proc/stat has no name in brackets, and its date of the boot is true as it is. */
	bool known = len > 0 && (file != STAT || contains(from, from + len, ')'));
	static const char called[][8] = { [UPTIME] = "uptime", [STAT] = "stat", [STATUS] = "status", [AUXV] = "auxv" };
	long made = known ? syscall(__NR_memfd_create, called[file], 1 /* CLOEXEC */) : -1;
	if (made >= 0) {
		from[len] = 0;
		if (file == STAT)
			stat(from, from + len, &to);
		else if (file == STATUS)
			status(from, from + len, &to);
		else if (file == AUXV)
			vector(from, len, &to);
		else
			uptime(from, &to);
		len = to.at - (from + ROOM);
		if (syscall(__NR_pwrite64, made, from + ROOM, len, 0) == len) {
			syscall(__NR_close, fd);
			/* Programs expect the lowest number that is free. */
			result = syscall(__NR_fcntl, made, cloexec ? F_DUPFD_CLOEXEC : F_DUPFD, 0);
		}
		syscall(__NR_close, made);
	}
	syscall(__NR_munmap, memory, 2 * ROOM);
	return result;
}

/* open(path, flags, mode), openat(dir, path, flags, mode), openat2(dir, path, how, size), creat(path, mode) */
long call_open(struct call *c)
{
	char path[128]; /* longer ones are not of /proc */
	bool at = c->nr != __NR_open && c->nr != __NR_creat;
	u64 where = c->a[at ? 1 : 0], flags = c->nr == __NR_creat ? 1 /* O_WRONLY */ : c->a[at ? 2 : 1];
	if (c->nr == __NR_openat2 && !read_user(&flags, flags, sizeof flags))
		return as_is(c);
	bool known = read_text(path, where, sizeof path), setting = known && may_be_setting(path);
	bool reading = !(flags & 3 /* O_ACCMODE */);
	enum file file = known && reading ? name(path) : OTHER;
	long fd = syscall(c->nr, c->a[0], c->a[1], c->a[2], c->a[3]);
	if (fd < 0 || (file == OTHER && !setting) || !in_proc(fd))
		return fd;
	if (file != OTHER)
		return translated(fd, file, flags & O_CLOEXEC);
	return reading ? shown_setting(fd, flags & O_CLOEXEC) : settable_setting(fd);
}
