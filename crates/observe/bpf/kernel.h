/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * The few fields of the kernel that the program here reads, by name, and that are not every program's.
 */
#ifndef DIORAMA_OBSERVE_KERNEL_H
#define DIORAMA_OBSERVE_KERNEL_H

#include <kernel_base.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

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
