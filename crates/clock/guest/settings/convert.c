/* One value, between virtual and real. */
#include "../page.h"
#include "settings.h"

/* (a * num + more) / den, at most all ones. */
static u64 ratio(u64 a, u64 num, u64 den, u64 more)
{
	unsigned __int128 p = (unsigned __int128)a * num + more;
	u64 hi = (u64)(p >> 64), lo = (u64)p, quotient, remainder;
	if (hi >= den)
		return ~0ull;
	/* The instruction itself: gcc would call __udivti3. The quotient fits because hi < den. */
	__asm__("divq %4" : "=a"(quotient), "=d"(remainder) : "a"(lo), "d"(hi), "r"(den) : "cc");
	return quotient;
}

struct conversion conversion(bool setting)
{
	struct conversion c = { .setting = setting };
	u32 sequence;
	do {
		sequence = begin_read();
		c.num = PAGE->tdf_num;
		c.den = PAGE->tdf_den;
	} while (read_again(sequence));
	return c;
}

/* In 1/100 s since the boot, as the kernel counts it, with the time in which the machine was suspended. */
static u64 uptime_virtual(u64 cs)
{
	struct timespec boot, mono;
	syscall(__NR_clock_gettime, CLOCK_BOOTTIME, &boot);
	syscall(__NR_clock_gettime, CLOCK_MONOTONIC, &mono);
	i64 slept = (i64)(to_ns(&boot) - to_ns(&mono));
	return (u64)past_virtual((i64)(cs * 10000000) - slept) / 10000000;
}

u64 converted(const struct conversion *c, u64 value, enum unit unit, u32 bytes, u32 id)
{
	u64 none = bytes >= 8 ? ~0ull : (1ull << 8 * bytes) - 1, result;
	/* A whole int is "none", too. Where there are 64 bits, they have a sign, and nothing negative is to be waited for. */
	if (value == 0 || value == none || (bytes == 8 && (i64)value < 0) || (bytes == 4 && value == 0x7fffffff))
		return value;
	/* Values that are multiplied on their way to the kernel are divided on their way back. */
	u64 up = c->setting ? c->num : c->den, down = c->setting ? c->den : c->num;
	switch (unit) {
	case UNIT_BYTES_S:
	case UNIT_PACKETS_S:
		result = ratio(value, down, up, up / 2);
		break;
	case UNIT_COUNT:
		/* With a period of so many times as long, the same rate, exactly. */
		result = c->setting ? ratio(value, c->den, 1, 0) : ratio(value, 1, c->den, c->den / 2);
		break;
	case UNIT_PERIOD:
		result = c->setting ? ratio(value, c->num, 1, 0) : ratio(value, 1, c->num, c->num / 2);
		break;
	case UNIT_DATE_NS:
		return c->setting ? (u64)date_real((i64)value) : (u64)date_virtual((i64)value);
	case UNIT_UPTIME_CS:
		return c->setting ? value : uptime_virtual(value);
	default:
		/* Not early: rounded up. On the way back, to the nearest, so that what was set is what is read. */
		result = ratio(value, up, down, c->setting ? down - 1 : down / 2);
	}
	if (result == 0)
		return 1;
	if (result < none)
		return result;
	if (c->setting)
		note(id, IS_CUT);
	return bytes == 8 ? FOREVER : none - 1;
}

void note(u32 id, enum why why)
{
	/* As an exec (exec.c): until the injector has taken notice, a signal ends the call. */
	while (syscall(DIORAMA_CALL_NOTE, id, why) == -EINTR)
		;
}
