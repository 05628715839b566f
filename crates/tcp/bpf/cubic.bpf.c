/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * CUBIC congestion control, RFC 9438, in a node's own time.
 *
 * The kernel's CUBIC grows with the real time since the last congestion, and its slow start ends by the real spacing of
 * acknowledgements; under dilation both pass too fast. Here every time is divided by the TDF first, and nothing else
 * differs from what a node would have on the target.
 *
 * Where the RFC leaves a choice, the choice is that of Linux, because that is what nodes run: the window before a
 * reduction is cwnd and not the flight size (4.6); alpha stays below 1 (4.3); slow start ends by HyStart ("Taming the
 * elephants: New TCP slow start", Ha and Rhee 2011); where no congestion has been met, growth is at least 5 % a round
 * trip.
 *
 * Windows are in segments, times in virtual microseconds unless they say otherwise.
 */
#include "kernel.h"

/* One of the two licences above: the one that the kernel asks for. */
char _license[] SEC("license") = "GPL";

/* Filled in before the program is loaded. */
const volatile struct {
	__u64 virtual_part; /* so much virtual time passes ... */
	__u64 real_part;    /* ... in so much real time */
	__u64 jiffy_us;     /* real microseconds in one of the kernel's ticks */
} config SEC(".rodata");

#define SECOND 1000000ULL
#define NONE 0xffffffffU

/* HyStart's constants, as Linux has them. */
#define LOW_WINDOW 16      /* smaller windows are no train */
#define MIN_SAMPLES 8      /* of the round-trip time, in a round */
#define SPACING 2000       /* acknowledgements further apart are no train */
#define LEAST_RISE 4000    /* of the round-trip time that ends slow start */
#define GREATEST_RISE 16000
#define LONGEST_HOLD 1000  /* for which an offload may keep back acknowledgements */

struct cubic {
	__u64 epoch;       /* when the present growth began; 0: not yet */
	__u64 round;       /* when the present round of slow start began */
	__u64 train;       /* the last acknowledgement of its train */
	__u32 round_end;   /* sequence number that ends it */
	__u32 round_rtt;   /* least round-trip time in it */
	__u32 samples;     /* of that time */
	__u32 slow_start_over;
	__u32 min_rtt;     /* ever; 0: none yet */
	__u32 w_max;       /* 4.1.2; 0: no congestion yet */
	__u32 plateau;     /* W_max of the present epoch */
	__u32 k_ms;        /* 4.2, equation 2 */
	__u32 w_est;       /* 4.3, in whole segments */
	__u32 w_est_acked; /* segments acknowledged towards the next */
	__u32 threshold;   /* of slow start, as this program has set it last */
};
_Static_assert(sizeof(struct cubic) <= 13 * 8, "the kernel keeps 104 bytes for congestion control");

extern __u32 tcp_slow_start(struct tcp_sock *tp, __u32 acked) __ksym;
extern void tcp_cong_avoid_ai(struct tcp_sock *tp, __u32 w, __u32 acked) __ksym;
extern __u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;

static __always_inline struct cubic *cubic_of(struct sock *sk)
{
	return (struct cubic *)((struct inet_connection_sock *)sk)->icsk_ca_priv;
}

static __always_inline __u64 to_virtual(__u64 real)
{
	return real * config.virtual_part / config.real_part;
}

static __always_inline __u64 now(struct tcp_sock *tp)
{
	return to_virtual(tp->tcp_mstamp);
}

static __always_inline bool in_slow_start(struct tcp_sock *tp)
{
	return tp->snd_cwnd < tp->snd_ssthresh;
}

/* A sender that has less to send than its window allows learns nothing about the window (RFC 7661). */
static __always_inline bool uses_its_window(struct tcp_sock *tp)
{
	if (BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited))
		return 1;
	return in_slow_start(tp) && tp->snd_cwnd < 2 * tp->max_packets_out;
}

static __always_inline void begin_round(struct tcp_sock *tp, struct cubic *ca)
{
	ca->round = ca->train = now(tp);
	ca->round_end = tp->snd_nxt;
	ca->round_rtt = NONE;
	ca->samples = 0;
}

static __always_inline void forget(struct tcp_sock *tp, struct cubic *ca)
{
	ca->epoch = 0;
	ca->slow_start_over = 0;
	ca->min_rtt = 0;
	ca->w_max = ca->plateau = 0;
	ca->k_ms = 0;
	ca->w_est = ca->w_est_acked = 0;
	begin_round(tp, ca);
}

/* The largest integer whose cube is at most x, bit by bit. */
static __always_inline __u32 cube_root(__u64 x)
{
	__u64 root = 0;

	for (int bit = 20; bit >= 0; bit--) {
		__u64 more = root | 1ULL << bit;

		if (more * more * more <= x)
			root = more;
	}
	return root;
}

/* 4.2: the plateau is W_max, reached after K = cbrt((W_max - cwnd) / C) seconds, C = 0.4. */
static __always_inline void begin_epoch(struct cubic *ca, __u32 cwnd, __u64 time)
{
	ca->epoch = time;
	ca->w_est = cwnd;
	ca->w_est_acked = 0;
	if (ca->w_max > cwnd) {
		/* in ms: 10^9 ms^3 are a s^3, and 1 / C is 5 / 2 */
		ca->k_ms = cube_root((__u64)(ca->w_max - cwnd) * 5 * 500000000ULL);
		ca->plateau = ca->w_max;
	} else {
		ca->k_ms = 0;
		ca->plateau = cwnd;
	}
}

/* 4.2, equation 1: C (t - K)^3 + W_max. */
static __always_inline __u32 w_cubic(struct cubic *ca, __u64 t_ms)
{
	bool before = t_ms < ca->k_ms;
	__u64 d = before ? ca->k_ms - t_ms : t_ms - ca->k_ms;

	if (d > 1000000) /* a quarter of an hour after the plateau: as fast as is allowed, and no overflow */
		d = 1000000;
	__u64 step = d * d * d / 500000000ULL / 5;

	if (before)
		return step < ca->plateau ? ca->plateau - step : 0;
	return ca->plateau + step;
}

/* How many acknowledged segments let the window grow by one. */
static __always_inline __u32 acked_per_segment(struct cubic *ca, __u32 cwnd, __u32 acked, __u64 time)
{
	if (!ca->epoch)
		begin_epoch(ca, cwnd, time);
	ca->w_est_acked += acked;

	/* 4.4: where the curve is one round trip later; 4.5: at least a little even on the plateau. */
	__u32 target = w_cubic(ca, (time - ca->epoch + ca->min_rtt) / 1000);
	__u32 per = target > cwnd ? cwnd / (target - cwnd) : 100 * cwnd;

	if (!ca->w_max && per > 20)
		per = 20;

	/* 4.3: W_est grows by alpha = 3 (1 - beta) / (1 + beta) = 9/17 segments a window, beta = 0.7. */
	__u32 window = cwnd * 17 / 9;

	if (window && ca->w_est_acked > window) {
		__u32 grown = (ca->w_est_acked - 1) / window;

		ca->w_est += grown;
		ca->w_est_acked -= grown * window;
	}
	if (ca->w_est > cwnd) {
		__u32 reno = cwnd / (ca->w_est - cwnd);

		if (per > reno)
			per = reno;
	}
	/* 4.2: at most half as much again in one round trip. */
	return per > 2 ? per : 2;
}

SEC("struct_ops")
void BPF_PROG(cubic_init, struct sock *sk)
{
	forget((struct tcp_sock *)sk, cubic_of(sk));
}

SEC("struct_ops")
void BPF_PROG(cubic_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;

	if (!uses_its_window(tp))
		return;
	if (in_slow_start(tp)) {
		acked = tcp_slow_start(tp, acked);
		if (!acked)
			return;
	}
	tcp_cong_avoid_ai(tp, acked_per_segment(cubic_of(sk), tp->snd_cwnd, acked, now(tp)), acked);
}

/* 4.6 and 4.7: the window after congestion is 0.7 of that before, whose size is remembered; less than it if the window
 * is shrinking, so that others find room. */
static __always_inline __u32 reduced(struct cubic *ca, __u32 cwnd)
{
	__u32 threshold = cwnd * 7 / 10;

	ca->epoch = 0;
	ca->w_max = cwnd < ca->w_max ? cwnd * 17 / 20 : cwnd;
	ca->threshold = threshold > 2 ? threshold : 2;
	return ca->threshold;
}

SEC("struct_ops")
__u32 BPF_PROG(cubic_ssthresh, struct sock *sk)
{
	return reduced(cubic_of(sk), ((struct tcp_sock *)sk)->snd_cwnd);
}

/* A kernel may leave a program out: one for virtual machines does so where a timer interrupts a process that it keeps
 * out of BPF's reach. It then takes for the threshold what happens to lie on its stack. This puts it right on the next
 * acknowledgement, before the kernel makes the window by it. */
static __always_inline void make_up(struct sock *sk, struct tcp_sock *tp, struct cubic *ca)
{
	__u8 state = BPF_CORE_READ_BITFIELD((struct inet_connection_sock *)sk, icsk_ca_state);
	bool congested = state == TCP_CA_CWR || ((state == TCP_CA_Recovery || state == TCP_CA_Loss) && tp->undo_marker);

	if (!congested || tp->snd_ssthresh == ca->threshold)
		return;
	tp->snd_ssthresh = reduced(ca, tp->prior_cwnd);
	if (state == TCP_CA_Loss)
		forget(tp, ca);
}

/* 4.8: after a time-out all starts anew. */
SEC("struct_ops")
void BPF_PROG(cubic_set_state, struct sock *sk, __u8 state)
{
	if (state == TCP_CA_Loss)
		forget((struct tcp_sock *)sk, cubic_of(sk));
}

/* 4.2: a time in which nothing was sent is no time of growth. */
SEC("struct_ops")
void BPF_PROG(cubic_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct cubic *ca = cubic_of(sk);

	if (event != CA_EVENT_TX_START || !ca->epoch)
		return;
	__s32 ticks = (__u32)bpf_jiffies64() - tp->lsndtime;

	if (ticks <= 0)
		return;
	__u64 time = now(tp);
	__u64 epoch = ca->epoch + to_virtual(ticks * config.jiffy_us);

	ca->epoch = epoch < time ? epoch : time;
}

SEC("struct_ops")
__u32 BPF_PROG(cubic_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

/* HyStart: the path is full when acknowledgements of one round arrive in a train as long as half a round trip, or when
 * the round trip becomes longer. */
static __always_inline bool path_is_full(struct sock *sk, struct tcp_sock *tp, struct cubic *ca, __u32 rtt)
{
	__u64 time = now(tp);

	/* Rounds are followed from the first on: one that began in the middle of a flight would stay out of step. */
	if ((__s32)(tp->snd_una - ca->round_end) > 0)
		begin_round(tp, ca);
	if (tp->snd_cwnd < LOW_WINDOW)
		return 0;

	if ((__s64)(time - ca->train) <= SPACING) {
		/* The kernel allows for what segmentation offload may add. The rate is bytes per real second. */
		__u64 rate = sk->sk_pacing_rate * config.real_part / config.virtual_part;
		__u64 hold = rate ? sk->sk_gso_max_size * 4 * SECOND / rate : 0;
		__u64 length = ca->min_rtt + (hold < LONGEST_HOLD ? hold : LONGEST_HOLD);

		if (sk->sk_pacing_status == SK_PACING_NONE)
			length /= 2;
		ca->train = time;
		if ((__s64)(time - ca->round) > (__s64)length)
			return 1;
	}

	if (rtt < ca->round_rtt)
		ca->round_rtt = rtt;
	if (ca->samples < MIN_SAMPLES) {
		ca->samples++;
		return 0;
	}
	__u32 rise = ca->min_rtt / 8;

	rise = rise < LEAST_RISE ? LEAST_RISE : rise > GREATEST_RISE ? GREATEST_RISE : rise;
	return ca->round_rtt > ca->min_rtt + rise;
}

SEC("struct_ops")
void BPF_PROG(cubic_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct cubic *ca = cubic_of(sk);

	make_up(sk, tp, ca);
	/* Round trips just after a recovery are those of a queue that drains. */
	if (sample->rtt_us < 0 || (ca->epoch && now(tp) - ca->epoch < SECOND))
		return;
	__u32 rtt = to_virtual((__u32)sample->rtt_us);

	if (!rtt)
		rtt = 1;
	if (!ca->min_rtt || rtt < ca->min_rtt)
		ca->min_rtt = rtt;
	if (!ca->slow_start_over && in_slow_start(tp) && path_is_full(sk, tp, ca, rtt)) {
		ca->slow_start_over = 1;
		tp->snd_ssthresh = ca->threshold = tp->snd_cwnd;
	}
}

SEC(".struct_ops.link")
struct tcp_congestion_ops cubic = {
	.name = "cubic_", /* and what makes it unique */
	.flags = TCP_CONG_NON_RESTRICTED,
	.init = (void *)cubic_init,
	.ssthresh = (void *)cubic_ssthresh,
	.cong_avoid = (void *)cubic_cong_avoid,
	.set_state = (void *)cubic_set_state,
	.cwnd_event = (void *)cubic_cwnd_event,
	.undo_cwnd = (void *)cubic_undo_cwnd,
	.pkts_acked = (void *)cubic_pkts_acked,
};
