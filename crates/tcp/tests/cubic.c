/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * The functions of cubic.bpf.c themselves: this program has the parts of a kernel that they need. What it checks is
 * named by its argument.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In place of libbpf's headers. */
static unsigned long long bpf_jiffies64(void)
{
	return 0;
}

#define SEC(name)
#define __ksym
#undef __always_inline /* glibc has one, too */
#define __always_inline inline
#define BPF_PROG(name, ...) name(__VA_ARGS__)
#define BPF_CORE_READ_BITFIELD(record, field) ((record)->field)

/* The loader fills in `config`; here main does. */
#define const
#include "../bpf/cubic.bpf.c"
#undef const

__u32 tcp_slow_start(struct tcp_sock *tp, __u32 acked)
{
	__u32 room = tp->snd_ssthresh - tp->snd_cwnd;
	__u32 grown = acked < room ? acked : room;

	tp->snd_cwnd += grown;
	return acked - grown;
}

/* Nothing here goes on after slow start. */
void tcp_cong_avoid_ai(struct tcp_sock *tp, __u32 w, __u32 acked)
{
}

__u32 tcp_reno_undo_cwnd(struct sock *sk)
{
	return 0;
}

/* Slow start over a simulated path: every acknowledgement is for one segment, and segments are one byte long. */
#define SEGMENTS 100000
#define START 1000000ULL /* virtual us; all below are */
#define TRIP 50000ULL    /* round trip of a segment that waits for nothing */
#define GAP 120ULL       /* in which the bottleneck passes one: 1500 bytes at 100 Mbit/s */

static __u64 sent_at[SEGMENTS], acked_at[SEGMENTS];

static void send_all(struct tcp_sock *tp, __u64 time)
{
	for (; tp->snd_nxt < tp->snd_una + tp->snd_cwnd; tp->snd_nxt++) {
		__u64 alone = time + TRIP;
		__u64 behind = tp->snd_nxt ? acked_at[tp->snd_nxt - 1] + GAP : 0;

		sent_at[tp->snd_nxt] = time;
		acked_at[tp->snd_nxt] = alone > behind ? alone : behind;
	}
}

/* At which window slow start ends; every flight must have been a round of its own. */
static __u32 end_of_slow_start(__u64 tdf)
{
	struct tcp_sock tp = { .snd_cwnd = 10, .snd_ssthresh = 0x7fffffff, .is_cwnd_limited = 1 };
	struct sock *sk = &tp.inet_conn.icsk_inet.sk;
	struct cubic *ca = cubic_of(sk);
	__u32 flight = 0; /* its first segment */

	config.virtual_part = 1;
	config.real_part = tdf;
	config.jiffy_us = 4000;
	tp.tcp_mstamp = START * tdf;
	cubic_init(sk);
	send_all(&tp, START);
	for (__u32 segment = 0; segment < SEGMENTS / 4; segment++) {
		__u64 time = acked_at[segment];
		struct ack_sample sample = { .rtt_us = (time - sent_at[segment]) * tdf };
		bool first = segment == flight;

		if (first)
			flight = tp.snd_nxt;
		tp.tcp_mstamp = time * tdf;
		tp.snd_una = segment + 1;
		cubic_pkts_acked(sk, &sample);
		if ((ca->round == time) != first) {
			printf("TDF %llu: at segment %u, %s of its flight, a round %s\n", tdf, segment,
			       first ? "the first" : "not the first", first ? "did not begin" : "began");
			exit(1);
		}
		if (!in_slow_start(&tp))
			return tp.snd_cwnd;
		cubic_cong_avoid(sk, segment + 1, 1);
		send_all(&tp, time);
	}
	printf("TDF %llu: slow start never ended\n", tdf);
	exit(1);
}

static int slow_start(void)
{
	for (__u64 tdf = 1; tdf <= 10; tdf += 9) {
		__u32 window = end_of_slow_start(tdf);
		/* The flight of 320 is the first whose train lasts half a round trip: 209 segments of it do. */
		__u32 expected = 320 + TRIP / 2 / GAP;

		if (window < expected - 2 || window > expected + 2) {
			printf("TDF %llu: slow start ended at a window of %u, not %u\n", tdf, window, expected);
			return 1;
		}
	}
	return 0;
}

/*
 * What a connection whose window was 100 has for a threshold on the acknowledgement after the kernel went into `state`
 * with `threshold`.
 */
static __u32 after_ack(__u8 state, __u32 undo_marker, __u32 threshold, struct cubic **found)
{
	static struct tcp_sock tp;
	struct sock *sk = &tp.inet_conn.icsk_inet.sk;
	struct ack_sample sample = { .rtt_us = -1 };

	tp = (struct tcp_sock){ .snd_cwnd = 100, .snd_ssthresh = 50, .tcp_mstamp = START };
	config.virtual_part = config.real_part = 1;
	cubic_init(sk);
	*found = cubic_of(sk);
	(*found)->epoch = START;
	(*found)->min_rtt = TRIP;
	tp.prior_cwnd = tp.snd_cwnd;
	tp.snd_ssthresh = threshold ? threshold : cubic_ssthresh(sk);
	tp.inet_conn.icsk_ca_state = state;
	tp.undo_marker = undo_marker;
	tp.snd_cwnd = 30;
	cubic_pkts_acked(sk, &sample);
	return tp.snd_ssthresh;
}

static int left_out(void)
{
	const __u32 junk = 0x81104110;
	struct cubic *ca;

	for (__u8 state = TCP_CA_CWR; state <= TCP_CA_Loss; state++) {
		__u32 threshold = after_ack(state, 1, junk, &ca);
		bool anew = state == TCP_CA_Loss;

		if (threshold != 70 || ca->epoch || ca->w_max != (anew ? 0 : 100) || ca->min_rtt != (anew ? 0 : TRIP)) {
			printf("state %u: threshold %u, W_max %u\n", state, threshold, ca->w_max);
			return 1;
		}
		/* One that was told, and one that the kernel has taken back since. */
		if (after_ack(state, 1, 0, &ca) != 70 || (state != TCP_CA_CWR && after_ack(state, 0, 400, &ca) != 400)) {
			printf("state %u: a threshold that was right was changed\n", state);
			return 1;
		}
	}
	return after_ack(0, 1, 400, &ca) != 400;
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "slow-start"))
		return slow_start();
	if (argc == 2 && !strcmp(argv[1], "left-out"))
		return left_out();
	return 2;
}
