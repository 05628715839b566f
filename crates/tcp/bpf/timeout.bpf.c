/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * The first retransmission time-out of a connection, 1 s (RFC 6298, 2.1), in a node's own time.
 *
 * The kernel asks programs of the socket's control group before it takes its constant. This one is attached to the root
 * of the hierarchy and answers for sockets in the run's network namespaces only; it leaves all others as it finds them.
 */
#include "kernel.h"

char _license[] SEC("license") = "GPL";

/* Filled in before the program is loaded. */
const volatile struct {
	__u32 initial_rto; /* in the kernel's ticks */
} config SEC(".rodata");

/* The run's namespaces, by cookie. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u64);
	__type(value, __u8);
} namespaces SEC(".maps");

SEC("sockops")
int initial_rto(struct bpf_sock_ops *ops)
{
	if (ops->op == BPF_SOCK_OPS_TIMEOUT_INIT) {
		__u64 cookie = bpf_get_netns_cookie(ops);

		if (bpf_map_lookup_elem(&namespaces, &cookie))
			ops->reply = config.initial_rto;
	}
	return 1;
}
