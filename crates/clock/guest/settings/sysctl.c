/*
 * Files below /proc/sys/net that are times or rates (sysctls.h).
 *
 * Who opens one for reading gets a copy of its text in virtual time, as of /proc/uptime (proc.c). Who opens it for
 * writing gets the file, under a number whose calls trap (calls.c); a shell then makes it its standard output.
 */
#include "settings.h"

#define ROOM 128

/* Whether a path is what a pattern says, in which a star is any text without a slash. */
static bool matches(const char *pattern, const char *path)
{
	/* Where to go on if what comes after the last star does not fit: one byte later. */
	const char *star = 0, *retry = 0;
	while (*path) {
		if (*pattern == '*') {
			star = ++pattern;
			retry = path;
		} else if (*pattern == *path) {
			pattern++;
			path++;
		} else if (star && *retry != '/') {
			pattern = star;
			path = ++retry;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return !*pattern;
}

/* A path below /proc/sys/net as the kernel names it: which file of the table; 0 if none. */
static const struct sysctl *of_path(const char *path)
{
	static const char in[] = "/sys/net/";
	for (; *path; path++) {
		u32 i = 0;
		while (in[i] && path[i] == in[i])
			i++;
		if (!in[i]) {
			path += i;
			for (i = 0; i < settings_sysctls_count; i++)
				if (matches(settings_sysctls[i].path, path))
					return settings_sysctls + i;
			return 0;
		}
	}
	return 0;
}

/* How the kernel names a file of /proc; false for any other. */
static bool path_of(long fd, char *path)
{
	char name[32] = "/proc/self/fd/", digits[20], *to = name + 14;
	u64 about[15]; /* struct statfs: the type first */
	if (syscall(__NR_fstatfs, fd, about) || about[0] != 0x9fa0 /* PROC_SUPER_MAGIC */)
		return false;
	for (char *p = decimal(digits + sizeof digits, (u64)fd); p < digits + sizeof digits;)
		*to++ = *p++;
	*to = 0;
	long len = syscall(__NR_readlink, name, path, ROOM - 1);
	if (len <= 0)
		return false;
	path[len] = 0;
	return true;
}

static const struct sysctl *of_descriptor(long fd)
{
	char path[ROOM];
	return path_of(fd, path) ? of_path(path) : 0;
}

bool may_be_setting(const char *path)
{
	static const char proc[] = "/proc/";
	u32 i = 0;
	while (proc[i] && path[i] == proc[i])
		i++;
	/* From the root it must begin so; a relative one may lead anywhere, but few are so long. */
	return *path == '/' ? !proc[i] : true;
}

static bool space(char byte)
{
	return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

/* A number with nothing but white space around it, and how far it goes; 0 if it is none. */
static u32 number(const char *text, u32 len, u64 *value)
{
	u32 i = 0, digits = 0;
	*value = 0;
	while (i < len && space(text[i]))
		i++;
	for (; i < len && text[i] >= '0' && text[i] <= '9' && digits < 18; i++, digits++)
		*value = *value * 10 + (u64)(text[i] - '0');
	for (u32 rest = i; rest < len; rest++)
		if (!space(text[rest]) && text[rest])
			return 0;
	return digits ? i : 0;
}

/* The text of a number and a line's end; how long it is. */
static u32 write_number(char *to, u64 value)
{
	char digits[20], *end = digits + sizeof digits;
	u32 len = 0;
	for (char *p = decimal(end, value); p < end;)
		to[len++] = *p++;
	to[len++] = '\n';
	return len;
}

/* Shows the file's value in virtual time; its length, or the kernel's error. */
static long show(const struct sysctl *sysctl, long fd, char *text)
{
	u64 value;
	struct conversion c = conversion(false);
	long len = syscall(__NR_pread64, fd, text, ROOM - 1, 0);
	if (len <= 0 || !number(text, (u32)len, &value) || value == 0x7fffffff)
		return len;
	return write_number(text, converted(&c, value, sysctl->unit, 4, 0));
}

/* A memfd of the setting's text in virtual time. */
static long setting_text(const struct sysctl *sysctl, long fd)
{
	char text[ROOM];
	long len = show(sysctl, fd, text), made = len < 0 ? len : syscall(__NR_memfd_create, "sysctl", 1 /* CLOEXEC */);
	if (made >= 0 && syscall(__NR_pwrite64, made, text, len, 0) != len) {
		syscall(__NR_close, made);
		return -EIO;
	}
	return made;
}

long shown_setting(long fd, bool cloexec)
{
	char path[ROOM];
	if (!path_of(fd, path))
		return fd;
	const struct sysctl *sysctl = of_path(path);
	long made = sysctl ? setting_text(sysctl, fd) : is_listing(path) ? listing_text(fd, path) : -1;
	if (made < 0)
		return fd;
	syscall(__NR_close, fd);
	/* Programs expect the lowest number that is free. */
	long result = syscall(__NR_fcntl, made, cloexec ? 1030 /* F_DUPFD_CLOEXEC */ : 0 /* F_DUPFD */, 0);
	syscall(__NR_close, made);
	return result;
}

long settable_setting(long fd)
{
	if (!of_descriptor(fd))
		return fd;
	trap_output();
	return trap_descriptor(fd);
}

/* Writes a value in real time. */
static long set(const struct sysctl *sysctl, const struct call *c, const char *from, u32 len)
{
	char text[32];
	u64 value;
	u32 digits = number(from, len, &value);
	struct conversion by = conversion(true);
	if (!digits || value >= 0x7fffffff || by.num == by.den)
		return as_is(c);
	u32 id = NOTE_OF_SYSCTL | sysctl->line;
	u64 real = converted(&by, value, sysctl->unit, 4, id), most = sysctl->most ? sysctl->most : 0x7ffffffe;
	/* A value that is too much natively is refused here, too. */
	if (real > most && value <= most) {
		note(id, IS_CUT);
		real = most;
	}
	long room = write_number(text, real), result = syscall(__NR_write, c->a[0], text, room);
	if (result == -EINVAL) {
		result = as_is(c);
		if (result >= 0)
			note(id, IS_UNTRANSLATED);
		return result;
	}
	return result == room ? (long)len : result;
}

bool sysctl_call(struct call *c, long *result)
{
	char text[ROOM];
	struct {
		u64 base, len;
	} one = { c->a[1], c->a[2] };
	bool vector = c->nr == __NR_writev || c->nr == __NR_readv;
	if (c->nr != __NR_write && c->nr != __NR_read && !vector)
		return false;
	const struct sysctl *sysctl = of_descriptor((long)c->a[0]);
	/* Of several buffers, the first has it all: so C libraries write. */
	if (!sysctl || (vector && (!c->a[2] || !read_user(&one, c->a[1], sizeof one))))
		return false;
	if (c->nr == __NR_read || c->nr == __NR_readv) {
		long at = syscall(__NR_lseek, c->a[0], 0, 1 /* SEEK_CUR */), len = show(sysctl, (long)c->a[0], text);
		*result = len;
		if (len <= 0)
			return true;
		len = at < len ? len - at : 0;
		*result = (u64)len < one.len ? len : (long)one.len;
		if (*result && !write_user(one.base, text + at, (u64)*result))
			*result = -EFAULT;
		else
			syscall(__NR_lseek, c->a[0], at + *result, 0 /* SEEK_SET */);
		return true;
	}
	u64 len = one.len < sizeof text ? one.len : sizeof text;
	if (vector && c->a[2] > 1) {
		struct {
			u64 base, len;
		} more;
		/* musl's second buffer may hold it all, after an empty first. */
		if (c->a[2] != 2 || !read_user(&more, c->a[1] + sizeof one, sizeof more) || (one.len && more.len))
			return false;
		if (!one.len) {
			one.base = more.base;
			len = one.len = more.len < sizeof text ? more.len : sizeof text;
		}
	}
	if (!len || len != one.len || !read_user(text, one.base, len))
		return false;
	*result = set(sysctl, c, text, (u32)len);
	return true;
}
