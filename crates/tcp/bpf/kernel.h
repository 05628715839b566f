/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * What the programs here use of the kernel: the few fields that they read or write, by name. The loader moves every
 * access to where the running kernel has the field (BPF CO-RE), so order, neighbours and kernel version do not matter.
 * Records that contain one another do so for a test, which compiles them for this machine.
 */
#ifndef DIORAMA_KERNEL_H
#define DIORAMA_KERNEL_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef _Bool bool;

enum bpf_map_type { BPF_MAP_TYPE_HASH = 1 };

#ifdef __bpf__
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
#endif

struct sock {
	unsigned long sk_pacing_rate; /* bytes per real second */
	__u32 sk_pacing_status;
	__u32 sk_gso_max_size;
};

struct inet_sock {
	struct sock sk;
};

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	__u8 icsk_ca_state : 5;
	__u64 icsk_ca_priv[13]; /* congestion control's own */
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u64 tcp_mstamp; /* real µs, as of the segment at hand */
	__u32 lsndtime;   /* jiffies at which data were last sent */
	__u32 snd_una;
	__u32 snd_nxt;
	__u32 snd_cwnd;
	__u32 snd_ssthresh;
	__u32 max_packets_out;
	__u32 prior_cwnd;  /* before the last reduction */
	__u32 undo_marker; /* 0: it was taken back, or cannot be */
	__u8 is_cwnd_limited : 1;
};

struct ack_sample {
	__s32 rtt_us; /* real; negative if there is none */
};

#ifdef __bpf__
#pragma clang attribute pop
#endif

enum tcp_ca_event { CA_EVENT_TX_START };
enum tcp_ca_state { TCP_CA_CWR = 2, TCP_CA_Recovery, TCP_CA_Loss };
enum sk_pacing { SK_PACING_NONE };

/* The loader matches the members by name. `name` comes first because the loader's owner fills it in. */
struct tcp_congestion_ops {
	char name[16];
	__u32 flags;
	void (*init)(struct sock *sk);
	__u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, __u32 ack, __u32 acked);
	void (*set_state)(struct sock *sk, __u8 state);
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event event);
	__u32 (*undo_cwnd)(struct sock *sk);
	void (*pkts_acked)(struct sock *sk, const struct ack_sample *sample);
};

/* A child network namespace may only select congestion control with this flag. */
#define TCP_CONG_NON_RESTRICTED 1

struct bpf_sock_ops {
	__u32 op;
	__u32 reply;
};
#define BPF_SOCK_OPS_TIMEOUT_INIT 1

#endif
