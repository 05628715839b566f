/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * The few fields of the kernel that the programs here read, by name, and that are not every program's.
 */
#ifndef DIORAMA_CPU_KERNEL_H
#define DIORAMA_CPU_KERNEL_H

#include <kernel_base.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct sched_entity {
	unsigned char on_rq;
};

struct task_group {
	struct cgroup_subsys_state css;
	struct sched_entity **se;
	struct task_group *parent;
};

struct thread_info {
	__u32 cpu;
};

struct task_struct {
	struct thread_info thread_info;
	unsigned int __state;
	__s32 pid;
	struct task_group *sched_task_group;
	unsigned int in_iowait : 1;
};

struct sk_buff {
	struct sock *sk;
	__s64 tstamp;
	__be16 protocol;
	__u16 network_header;
	unsigned char *head;
};

struct sk_buff_head {
	struct sk_buff *next;
	__u32 qlen;
};

struct sock_common {
	__u16 skc_num;
	__u16 skc_family;
	volatile unsigned char skc_state;
};

struct sock {
	struct sock_common __sk_common;
	__u16 sk_protocol;
	struct sk_buff_head sk_receive_queue;
};

struct tcp_sock {
	__u32 rcv_nxt;
	__u32 copied_seq;
	__u64 bytes_received;
};

struct udp_sock {
	struct sk_buff_head reader_queue;
};

struct hrtimer_clock_base {
	__s64 offset;
};

struct hrtimer {
	__s64 _softexpires;
	struct hrtimer_clock_base *base;
};

#pragma clang attribute pop

struct __sk_buff {
	__u32 len;
	__u32 pkt_type;
	__u32 mark;
	__u32 queue_mapping;
	__u32 protocol;
	__u32 vlan_present;
	__u32 vlan_tci;
	__u32 vlan_proto;
	__u32 priority;
	__u32 ingress_ifindex;
	__u32 ifindex;
	__u32 tc_index;
	__u32 cb[5];
	__u32 hash;
	__u32 tc_classid;
	__u32 data;
	__u32 data_end;
	__u32 napi_id;
	__u32 family;
	__u32 remote_ip4;
	__u32 local_ip4;
	__u32 remote_ip6[4];
	__u32 local_ip6[4];
	__u32 remote_port;
	__u32 local_port;
	__u32 data_meta;
	__u64 flow_keys;
	__u64 tstamp;
};

/* Of packets, in the order of a frame's bytes. */
#define IPV4 0x0008
#define IPV6 0xdd86

#define TCP 6
#define UDP 17

#define TCP_LISTEN 10

#define AF_INET 2
#define AF_INET6 10

#define TC_ACT_OK 0

#endif
