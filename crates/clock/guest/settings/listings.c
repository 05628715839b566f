/*
 * Files of /proc/net that list sockets, groups and connections, with times among what they say (listings.h). As of
 * /proc/uptime (proc.c), who opens one for reading gets a copy of its text in virtual time.
 */
#include "settings.h"

#define FIRST_ROOM (64ull << 10)
#define MOST_ROOM (64ull << 20)

/* Whether `path` ends with /net/ and a name of the table. */
static bool is_of(const char *path, const struct listing *listing)
{
	static const char in[] = "/net/";
	u64 len = 0, name = 0;
	while (path[len])
		len++;
	while (listing->name[name])
		name++;
	if (len < name + sizeof in - 1)
		return false;
	path += len - name - (sizeof in - 1);
	for (u32 i = 0; i < sizeof in - 1; i++)
		if (path[i] != in[i])
			return false;
	for (u64 i = 0; i < name; i++)
		if (path[sizeof in - 1 + i] != listing->name[i])
			return false;
	return true;
}

/* All of a file, in memory that is as large as `room` says; 0 if it cannot be had. */
static char *read_all(long fd, u64 *len, u64 *room)
{
	*room = FIRST_ROOM;
	*len = 0;
	long memory = syscall(__NR_mmap, 0, *room, 3 /* READ | WRITE */, 0x22 /* PRIVATE | ANONYMOUS */, -1, 0);
	if (memory < 0 && memory > -4096)
		return 0;
	for (;;) {
		long got = syscall(__NR_pread64, fd, (char *)memory + *len, *room - *len, *len);
		if (got == 0)
			return (char *)memory;
		*len += got > 0 ? (u64)got : 0;
		if (got > 0 && *len < *room)
			continue;
		long more = got < 0 || *room >= MOST_ROOM ? -ENOMEM
							  : syscall(__NR_mremap, memory, *room, 2 * *room, 1 /* MAYMOVE */);
		if (more < 0 && more > -4096) {
			syscall(__NR_munmap, memory, *room);
			return 0;
		}
		memory = more;
		*room *= 2;
	}
}

static i32 digit(char c, u32 base)
{
	i32 value = c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
	return value < (i32)base ? value : -1;
}

/* A field, between `from` and `end`, as it is to be shown; where what was written ends. */
static char *field(char *to, const char *from, const char *end, const struct listing *listing)
{
	const char *p = from;
	u64 value = 0, digits = 0;
	u32 base = listing->timer ? 16 : 10;
	/* The kind of a timer, which is a number, too. */
	while (listing->timer && p < end && *p != ':')
		*to++ = *p++;
	if (listing->timer && p < end)
		*to++ = *p++;
	const char *number = p;
	for (; p < end && digit(*p, base) >= 0 && digits < 15; p++, digits++)
		value = value * base + (u64)digit(*p, base);
	if (p < end || !digits) {
		for (p = number; p < end; p++)
			*to++ = *p;
		return to;
	}
	struct conversion c = conversion(false);
	value = converted(&c, value, listing->unit, 8, 0);
	if (!listing->timer) {
		char text[20], *last = text + sizeof text;
		for (char *q = decimal(last, value); q < last; q++)
			*to++ = *q;
		return to;
	}
	for (i32 shift = 28; shift >= 0; shift -= 4)
		*to++ = "0123456789ABCDEF"[value >> shift & 15];
	return to;
}

/* The text with its times translated, of lines of any number of columns; where what was written ends. */
static char *lines(char *to, const char *from, const char *end, const char *path)
{
	u32 column = 0;
	while (from < end) {
		if (*from == '\n')
			column = 0;
		if (*from == ' ' || *from == '\t' || *from == '\n') {
			*to++ = *from++;
			continue;
		}
		const char *last = from;
		while (last < end && *last != ' ' && *last != '\t' && *last != '\n')
			last++;
		const struct listing *listing = settings_listings, *all = listing + settings_listings_count;
		while (listing < all && (listing->column != column || !is_of(path, listing)))
			listing++;
		if (listing < all)
			to = field(to, from, last, listing);
		else
			while (from < last)
				*to++ = *from++;
		from = last;
		column++;
	}
	return to;
}

bool is_listing(const char *path)
{
	for (u32 i = 0; i < settings_listings_count; i++)
		if (is_of(path, settings_listings + i))
			return true;
	return false;
}

long listing_text(long fd, const char *path)
{
	u64 len, room;
	char *from = read_all(fd, &len, &room);
	if (!from)
		return -ENOMEM;
	/* No field becomes longer than eight digits and what was there. */
	u64 more = 4 * len + 0x1000;
	long memory = syscall(__NR_mmap, 0, more, 3, 0x22, -1, 0), made = -ENOMEM;
	if (memory > 0 || memory <= -4096) {
		u64 shown = (u64)(lines((char *)memory, from, from + len, path) - (char *)memory);
		made = syscall(__NR_memfd_create, "net", 1 /* CLOEXEC */);
		if (made >= 0 && syscall(__NR_pwrite64, made, memory, shown, 0) != (long)shown) {
			syscall(__NR_close, made);
			made = -EIO;
		}
		syscall(__NR_munmap, memory, more);
	}
	syscall(__NR_munmap, from, room);
	return made;
}
