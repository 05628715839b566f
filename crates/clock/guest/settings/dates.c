/*
 * Dates of a node that are off against the others', as an experiment has set them: of its files, in its answers, and
 * what waits for one. `node_clock.h` says what they are computed from. Seldom needed, so it has a file that few touch.
 */
#include "../page.h"

struct own_date {
	i64 offset, drift, earlier;
	u64 since;
};

static struct own_date own_date(void)
{
	const volatile struct node_clock *c = (const volatile struct node_clock *)STATE->node_clock;
	struct own_date own;
	u32 sequence;
	do {
		while ((sequence = c->date_sequence) & 1)
			__builtin_ia32_pause();
		__asm__ volatile("" ::: "memory");
		own = (struct own_date){ c->date_offset, c->date_drift, c->date_earlier, c->date_since };
		__asm__ volatile("" ::: "memory");
	} while (c->date_sequence != sequence);
	return own;
}

i64 own_date_off_at(u64 monotonic)
{
	struct own_date own = own_date();
	if (monotonic < own.since)
		return own.earlier;
	return own.offset + (i64)(((__int128)own.drift * (i64)(monotonic - own.since)) >> NODE_CLOCK_DRIFT_BITS);
}

/*
 * Rounded so that what waits for a date does not end before it. A date that has been jumped over comes at the jump.
 */
i64 own_date_off_of(i64 date)
{
	const u64 one = 1ull << NODE_CLOCK_DRIFT_BITS;
	struct own_date own = own_date();
	i64 passed = date - own.offset - (i64)own.since, at = date - own.earlier;
	if (passed >= 0)
		at = (i64)(own.since + scale_up((u64)passed, one, (u64)((i64)one + own.drift)));
	else if (at > (i64)own.since)
		at = (i64)own.since;
	return date - at;
}

struct timespec read_own_date(void)
{
	u64 now = read_virtual();
	now += (u64)(PAGE->realtime_offset + own_date_off_at(now));
	return (struct timespec){ (i64)(now / NS), (i64)(now % NS) };
}
