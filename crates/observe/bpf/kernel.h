/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * The few fields of the kernel that the program here reads, by name. The loader moves every access to where the running
 * kernel has the field (BPF CO-RE), so order, neighbours and kernel version do not matter.
 */
#ifndef DIORAMA_OBSERVE_KERNEL_H
#define DIORAMA_OBSERVE_KERNEL_H

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

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};

#define BPF_F_NO_PREALLOC 1
#define BPF_ANY 0
#define BPF_NOEXIST 1
#define BPF_LOCAL_STORAGE_GET_F_CREATE 1

struct bpf_pidns_info;

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct kernfs_node {
	__u64 id;
};

struct cgroup {
	struct kernfs_node *kn;
};

struct cgroup_subsys_state {
	struct cgroup *cgroup;
};

struct task_group {
	struct cgroup_subsys_state css;
	struct task_group *parent;
};

struct sched_entity {
	__u64 sum_exec_runtime;
};

typedef struct {
	void *vdso;
} mm_context_t;

struct mm_struct {
	mm_context_t context;
};

struct task_struct {
	unsigned int ptrace;
	struct mm_struct *mm;
	struct sched_entity se;
	struct task_group *sched_task_group;
	__s32 tgid;
	struct task_struct *parent;
	unsigned long nvcsw;
	unsigned long nivcsw;
	unsigned long min_flt;
	unsigned long maj_flt;
	char comm[16];
};

struct pt_regs {
	unsigned long di;
	unsigned long orig_ax; /* the number of the call */
	unsigned long ip;
};

struct sigsys {
	int _syscall;
};

union sifields {
	struct sigsys _sigsys;
};

struct kernel_siginfo {
	int si_code;
	union sifields _sifields;
};

#pragma clang attribute pop

struct bpf_pidns_info {
	__u32 pid;
	__u32 tgid;
};

#endif
