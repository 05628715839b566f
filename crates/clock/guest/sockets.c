/* Socket options that are times. filter.c traps only these. */
#include "dilation.h"

#define SOL_IP 0
#define SOL_IPV6 41
#define SOL_SOCKET 1
#define SO_LINGER 13
#define SO_RCVTIMEO 20
#define SO_SNDTIMEO 21
#define SO_MAX_PACING_RATE 47
#define SO_TXTIME 61
#define SO_RCVTIMEO_NEW 66
#define SO_SNDTIMEO_NEW 67
#define SOL_TCP 6
#define TCP_LINGER2 8
#define TCP_INFO 11
#define TCP_USER_TIMEOUT 18

#define FOREVER_INT 0x7fffffffll

/* The kernel's maximum: TCP_KEEPIDLE and TCP_KEEPINTVL 32767 s. Of TCP_LINGER2 it takes 120 s for more. */
static i64 limit(struct call *c)
{
	return c->a[1] == SOL_TCP && c->a[2] != TCP_USER_TIMEOUT && c->a[2] != TCP_LINGER2 ? 32767 : FOREVER_INT;
}

/* A whole number of `unit` ns, rounded up and clamped. */
static i32 int_real(i32 value, u64 unit, i64 most)
{
	if (value <= 0)
		return value;
	u64 units = (real_span((u64)value * unit) + unit - 1) / unit;
	return (i32)(units > (u64)most ? most : (i64)units);
}

static i32 int_virtual(i32 value, u64 unit)
{
	if (value <= 0)
		return value;
	u64 units = (virtual_span((u64)value * unit) + unit / 2) / unit;
	return (i32)(units ? units : 1);
}

static u64 unit_of(struct call *c)
{
	return c->a[1] == SOL_TCP && c->a[2] == TCP_USER_TIMEOUT ? 1000000 : NS;
}

static long pass(struct call *c, void *value, u64 len)
{
	return syscall(__NR_setsockopt, c->a[0], c->a[1], c->a[2], value, len);
}

/*
 * struct tcp_info: what in it is a time or a rate, by its offset. A kernel that knows less of it gives less; what newer
 * ones add has been counters so far.
 */
static const struct {
	u8 at;
	u8 wide; /* 64 bits, not 32 */
	enum { US, MS, RATE } unit;
} tcp_info[] = {
	{ 8, 0, US },    /* rto */
	{ 12, 0, US },   /* ato */
	{ 44, 0, MS },   /* last_data_sent */
	{ 48, 0, MS },   /* last_ack_sent */
	{ 52, 0, MS },   /* last_data_recv */
	{ 56, 0, MS },   /* last_ack_recv */
	{ 68, 0, US },   /* rtt */
	{ 72, 0, US },   /* rttvar */
	{ 92, 0, US },   /* rcv_rtt */
	{ 104, 1, RATE }, /* pacing_rate */
	{ 112, 1, RATE }, /* max_pacing_rate */
	{ 148, 0, US },  /* min_rtt */
	{ 160, 1, RATE }, /* delivery_rate */
	{ 168, 1, US },  /* busy_time */
	{ 176, 1, US },  /* rwnd_limited */
	{ 184, 1, US },  /* sndbuf_limited */
	{ 244, 0, MS },  /* total_rto_time */
};

void show_tcp_info(u64 info, i32 len)
{
	for (u32 i = 0; i < sizeof tcp_info / sizeof *tcp_info; i++) {
		u64 where = info + tcp_info[i].at;
		if (tcp_info[i].at + (tcp_info[i].wide ? 8 : 4) > len)
			continue;
		u64 value = tcp_info[i].wide ? *(u64 *)where : *(u32 *)where;
		/* No time yet, or "never" and "no limit". */
		if (value == 0 || value == (tcp_info[i].wide ? ~0ull : 0xffffffffull))
			continue;
		value = tcp_info[i].unit == RATE ? real_span(value) : virtual_span(value);
		/* Less than a unit is not "no time yet". */
		value = value ? value : 1;
		if (tcp_info[i].wide)
			*(u64 *)where = value;
		else
			*(u32 *)where = value > 0xffffffffull ? 0xffffffffu : (u32)value;
	}
}

/* Bytes a second, in 4 or 8 bytes; all ones for no limit. Rounded down, but not to nothing. */
static long set_pacing_rate(struct call *c)
{
	u64 len = (i32)c->a[4] >= 8 ? 8 : 4, rate = 0, none = len == 8 ? ~0ull : 0xffffffffull;
	if ((i32)c->a[4] < 4)
		return pass(c, (void *)c->a[3], c->a[4]);
	if (!read_user(&rate, c->a[3], len))
		return as_is(c);
	if (rate != 0 && rate != none) {
		u64 real = virtual_span(rate);
		rate = real ? real : 1;
	}
	return pass(c, &rate, len);
}

static long get_pacing_rate(struct call *c, i32 len)
{
	u64 rate = 0, none = len == 8 ? ~0ull : 0xffffffffull;
	if ((len != 4 && len != 8) || !read_user(&rate, c->a[3], (u64)len))
		return 0;
	if (rate != none) {
		rate = real_span(rate);
		rate = rate > none ? none : rate;
	}
	return write_user(c->a[3], &rate, (u64)len) ? 0 : -EFAULT;
}

long call_setsockopt(struct call *c)
{
	i64 len = (i32)c->a[4];
	if (c->a[1] == SOL_IP || c->a[1] == SOL_IPV6)
		return call_table_option(c);
	if (c->a[1] == SOL_TCP) {
		i32 value;
		if (len < 4)
			return pass(c, (void *)c->a[3], c->a[4]);
		if (!read_user(&value, c->a[3], 4))
			return as_is(c);
		i32 most = (i32)limit(c);
		/* A value that is too much undilated is refused undilated. */
		if (value <= most)
			value = int_real(value, unit_of(c), most);
		return pass(c, &value, 4);
	}
	if (c->a[2] == SO_LINGER) {
		i32 linger[2];
		if (len < 8)
			return pass(c, (void *)c->a[3], c->a[4]);
		if (!read_user(linger, c->a[3], 8))
			return as_is(c);
		linger[1] = int_real(linger[1], NS, limit(c));
		return pass(c, linger, 8);
	}
	if (c->a[2] == SO_MAX_PACING_RATE)
		return set_pacing_rate(c);
	if (c->a[2] == SO_TXTIME) {
		note_txtime();
		return as_is(c);
	}
	if (c->a[2] != SO_RCVTIMEO && c->a[2] != SO_SNDTIMEO && c->a[2] != SO_RCVTIMEO_NEW && c->a[2] != SO_SNDTIMEO_NEW)
		return call_timestamp_option(c);
	struct timeval t; /* SO_RCVTIMEO, SO_SNDTIMEO, old and new: the same on x86-64 */
	if (len < (i64)sizeof t)
		return pass(c, (void *)c->a[3], c->a[4]);
	if (!read_user(&t, c->a[3], sizeof t))
		return as_is(c);
	if (t.sec >= 0 && (u64)t.usec < 1000000) {
		struct timespec s = { t.sec, t.usec * 1000 };
		u64 us = (real_span(to_ns(&s)) + 999) / 1000;
		t.sec = (i64)(us / 1000000);
		t.usec = (i64)(us % 1000000);
	}
	return pass(c, &t, sizeof t);
}

long call_getsockopt(struct call *c)
{
	if (c->a[1] == SOL_IP || c->a[1] == SOL_IPV6)
		return call_table_option(c);
	long result = syscall(__NR_getsockopt, c->a[0], c->a[1], c->a[2], c->a[3], c->a[4]);
	i32 len;
	if (result || !read_user(&len, c->a[4], 4))
		return result;
	if (c->a[1] == SOL_TCP && c->a[2] == TCP_INFO) {
		show_tcp_info(c->a[3], len);
	} else if (c->a[1] == SOL_TCP && len == 4) {
		i32 value;
		if (!read_user(&value, c->a[3], 4))
			return -EFAULT;
		value = int_virtual(value, unit_of(c));
		write_user(c->a[3], &value, 4);
	} else if (c->a[1] == SOL_SOCKET && c->a[2] == SO_MAX_PACING_RATE) {
		return get_pacing_rate(c, len);
	} else if (c->a[1] == SOL_SOCKET && c->a[2] == SO_LINGER && len == 8) {
		i32 value;
		if (!read_user(&value, c->a[3] + 4, 4))
			return -EFAULT;
		value = int_virtual(value, NS);
		write_user(c->a[3] + 4, &value, 4);
	} else if (c->a[1] == SOL_SOCKET && c->a[2] != SO_LINGER && len == sizeof(struct timeval)) {
		struct timeval t;
		if (!read_user(&t, c->a[3], sizeof t))
			return -EFAULT;
		struct timespec s = { t.sec, t.usec * 1000 };
		u64 us = (virtual_span(to_ns(&s)) + 500) / 1000;
		t.sec = (i64)(us / 1000000);
		t.usec = (i64)(us % 1000000);
		write_user(c->a[3], &t, sizeof t);
	}
	return result;
}
