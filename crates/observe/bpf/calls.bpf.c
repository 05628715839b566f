/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * Counts the system calls of programs: which followed which in a thread, how long each took, what it gave back. All is
 * summed up here; nothing goes to user space for a single call. `crates/observe/src/calls.rs` reads the sums.
 *
 * A call of a dilated program may be answered by the image that dilation has put into its process
 * (`crates/clock/guest`): after a signal, or at a call site that has been changed. What the image calls on its behalf
 * is not the program's, and is counted apart.
 */
#include "kernel.h"

char _license[] SEC("license") = "GPL";

/* Numbers of calls are below it. */
#define MOST_CALLS 512
/* No call: before the first of a program, and between two. */
#define NO_CALL 0xffff

#define EXECVE 59
#define RT_SIGPROCMASK 14
#define NO_HOW 99 /* its first argument, which it refuses */
#define RT_SIGRETURN 15
#define ENOSYS 38
#define SIGSYS 31
#define SYS_SECCOMP 1
#define MOST_ERRNO 4095
/* The most that a vDSO takes, of any kernel. */
#define VDSO_SIZE 0x4000

/* Buckets of sizes: none, then by powers of two. */
#define SIZES 32

/* `struct Config` of the loader. */
struct {
	__u64 moves_bytes[MOST_CALLS / 64]; /* the calls that give back how many bytes they moved: a bit each */
	__u64 image; /* the upper half of instruction pointers in dilation's image; 0: nothing is dilated */
	__u64 pid_space[2]; /* device and inode of the PID namespace by whose numbers `roots` goes */
	__u64 most_programs;
} const volatile config = {};

/* Which subject a control group is, counted from 1. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u64);
	__type(value, __u32);
} groups SEC(".maps");

/* Processes, or threads, that are subjects themselves, with all that they start. */
struct root {
	__u32 subject;
	__u32 at_once; /* else from the next program on that it executes */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, struct root);
} roots SEC(".maps");

struct program {
	__u32 subject;
	char name[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct program);
	__type(value, __u32);
} programs SEC(".maps");

struct seen {
	__u64 uncounted; /* threads and steps, for want of memory */
	__u64 programs;
	__u64 harness; /* the process that dilates programs, by the number that it has on the whole machine */
	__u64 has_roots;
	__u64 generation; /* of `roots`: whoever was nobody's may not be any more */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct seen);
} seen SEC(".maps");

/* `struct CallWords` of the loader. */
struct call {
	__u64 count;   /* of those that ended */
	__u64 ns;      /* real */
	__u64 errors;
	__u64 trapped; /* answered by the image */
	__u64 refused; /* by a filter of dilation's: ENOSYS */
	__u64 bytes;
	__u32 sizes[SIZES];
};

/* Not on the stack, which has no room for much. */
struct call no_call_yet = {};

struct call_key {
	__u32 program;
	__u32 call;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, struct call_key);
	__type(value, struct call);
} calls SEC(".maps");

/*
 * For which call of a program the image makes one, such as ppoll for poll, or the same: learnt when a signal tells
 * both. All others that it makes are its own.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, struct call_key);
	__type(value, __u32);
} instead SEC(".maps");

struct step_key {
	__u32 program;
	__u16 from;
	__u16 to;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, struct step_key);
	__type(value, __u64);
} steps SEC(".maps");

/* `struct TotalWords` of the loader. */
struct total {
	__u64 voluntary;   /* switches: it waited for something */
	__u64 involuntary; /* it was put aside */
	__u64 faults;
	__u64 cpu_ns;      /* of cores, real */
	__u64 image_calls; /* of dilation, on its behalf */
	__u64 image_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct total);
} totals SEC(".maps");

struct task {
	__u64 group;   /* address of the task's group, by which a change of group shows; 0: it does not matter */
	__u64 generation; /* of `roots`, when it was looked for there */
	__u32 subject; /* from 1; 0: of nobody's */
	__u32 program; /* from 1; 0: it has executed none yet */
	__u64 entered;
	__u64 image_entered; /* 0: the image calls nothing */
	__u16 last;
	__u16 call;
	__u8 trapped;  /* by a signal: until the image returns from its handler */
	__u8 starting; /* the image prepares a program that was executed just now */
	__u16 image_call;
	__u64 voluntary, involuntary, faults, cpu_ns; /* as they were counted last */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task);
} tasks SEC(".maps");

static __always_inline void miss(void)
{
	__u32 first = 0;
	struct seen *all = bpf_map_lookup_elem(&seen, &first);
	if (all)
		__sync_fetch_and_add(&all->uncounted, 1);
}

/* The number of a program by its name; that of all others together, where there are too many. */
static __always_inline __u32 program_of(__u32 subject, struct task_struct *p)
{
	struct program key = { .subject = subject };
	bpf_probe_read_kernel(key.name, sizeof(key.name), p->comm);
	__u32 *known = bpf_map_lookup_elem(&programs, &key);
	if (known)
		return *known;
	__u32 first = 0;
	struct seen *all = bpf_map_lookup_elem(&seen, &first);
	__u32 number = all ? __sync_fetch_and_add(&all->programs, 1) + 1 : config.most_programs;
	if (number >= config.most_programs)
		return config.most_programs;
	bpf_map_update_elem(&programs, &key, &number, BPF_NOEXIST);
	known = bpf_map_lookup_elem(&programs, &key);
	return known ? *known : config.most_programs;
}

static __always_inline void remember_totals(struct task *t, struct task_struct *p)
{
	t->voluntary = p->nvcsw;
	t->involuntary = p->nivcsw;
	t->faults = p->min_flt + p->maj_flt;
	t->cpu_ns = p->se.sum_exec_runtime;
}

static __always_inline struct task *begin_task(struct task_struct *p, __u32 subject, __u64 group)
{
	struct task *t = bpf_task_storage_get(&tasks, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!t) {
		if (subject)
			miss();
		return 0;
	}
	t->group = group;
	t->subject = subject;
	t->program = 0;
	t->last = t->call = NO_CALL;
	t->trapped = t->starting = 0;
	t->image_entered = 0;
	remember_totals(t, p);
	return t;
}

static __always_inline __u32 subject_of_group(const struct task_group *group)
{
	/* The container's group, or one that it has made, is in the node's. */
	for (int above = 0; above < 3 && group; above++, group = group->parent) {
		__u64 id = group->css.cgroup->kn->id;
		__u32 *subject = bpf_map_lookup_elem(&groups, &id);
		if (subject)
			return *subject;
	}
	return 0;
}

static __always_inline struct root *root_of_current(void)
{
	struct bpf_pidns_info ids;
	if (bpf_get_ns_current_pid_tgid(config.pid_space[0], config.pid_space[1], &ids, sizeof(ids)))
		return 0;
	struct root *thread = bpf_map_lookup_elem(&roots, &ids.pid);
	return thread ? thread : bpf_map_lookup_elem(&roots, &ids.tgid);
}

/* The record of a task, the current one or one that it starts, that is a subject's, else nothing. */
static __always_inline struct task *task_of(struct task_struct *p)
{
	struct task_group *group = p->sched_task_group;
	struct task *t = bpf_task_storage_get(&tasks, p, 0, 0);
	if (t && t->subject && (!t->group || t->group == (__u64)group))
		return t;
	__u32 first = 0;
	struct seen *all = bpf_map_lookup_elem(&seen, &first);
	__u64 generation = all ? all->generation : 0;
	if (t && !t->subject && t->group == (__u64)group && t->generation == generation)
		return 0;
	struct root *root = all && all->has_roots ? root_of_current() : 0;
	if (root) {
		t = begin_task(p, root->subject, 0);
		if (t && root->at_once)
			t->program = program_of(root->subject, p);
		return t;
	}
	__u32 subject = subject_of_group(group);
	if (t && subject && t->subject == subject) {
		t->group = (__u64)group;
		return t;
	}
	/* Those that are nobody's are remembered, too, so that they are looked up once. */
	t = begin_task(p, subject, (__u64)group);
	if (t)
		t->generation = generation;
	return subject ? t : 0;
}

static __always_inline struct total *total_of(__u32 program)
{
	__u32 key = program - 1;
	return bpf_map_lookup_elem(&totals, &key);
}

/* Counts what a task has had of the machine since it was counted last. */
static __always_inline void settle(struct task *t, struct task_struct *p)
{
	struct total *n = total_of(t->program);
	if (!n)
		return;
	__sync_fetch_and_add(&n->voluntary, p->nvcsw - t->voluntary);
	__sync_fetch_and_add(&n->involuntary, p->nivcsw - t->involuntary);
	__sync_fetch_and_add(&n->faults, p->min_flt + p->maj_flt - t->faults);
	__sync_fetch_and_add(&n->cpu_ns, p->se.sum_exec_runtime - t->cpu_ns);
	remember_totals(t, p);
}

static __always_inline struct call *call_of(__u32 program, __u32 number)
{
	struct call_key key = { .program = program, .call = number };
	struct call *call = bpf_map_lookup_elem(&calls, &key);
	if (call)
		return call;
	bpf_map_update_elem(&calls, &key, &no_call_yet, BPF_NOEXIST);
	return bpf_map_lookup_elem(&calls, &key);
}

static __always_inline void begin_call(struct task *t, __u32 number, __u64 now)
{
	if (number >= MOST_CALLS)
		number = MOST_CALLS - 1;
	struct step_key key = { .program = t->program, .from = t->last, .to = number };
	__u64 *count = bpf_map_lookup_elem(&steps, &key);
	if (count) {
		__sync_fetch_and_add(count, 1);
	} else {
		__u64 one = 1;
		if (bpf_map_update_elem(&steps, &key, &one, BPF_NOEXIST)) {
			count = bpf_map_lookup_elem(&steps, &key);
			if (count)
				__sync_fetch_and_add(count, 1);
			else
				miss();
		}
	}
	t->last = t->call = number;
	t->entered = now;
}

static __always_inline __u32 size_bucket(__u64 bytes)
{
	__u32 bucket = 0;
	if (!bytes)
		return 0;
	for (int i = 16; i; i /= 2)
		if (bytes >> i) {
			bytes >>= i;
			bucket += i;
		}
	bucket++;
	return bucket < SIZES ? bucket : SIZES - 1;
}

static __always_inline void count_result(struct call *call, __u32 number, long result)
{
	if (result < 0 && result >= -MOST_ERRNO) {
		__sync_fetch_and_add(&call->errors, 1);
		return;
	}
	if (config.moves_bytes[number / 64 % (MOST_CALLS / 64)] >> (number % 64) & 1) {
		__sync_fetch_and_add(&call->bytes, result);
		__sync_fetch_and_add(&call->sizes[size_bucket(result) & (SIZES - 1)], 1);
	}
}

static __always_inline void end_call(struct task *t, __u64 now, bool has_result, long result)
{
	__u32 number = t->call;
	struct call *call = call_of(t->program, number);
	t->call = NO_CALL;
	if (!call)
		return;
	__sync_fetch_and_add(&call->count, 1);
	__sync_fetch_and_add(&call->ns, now - t->entered);
	if (has_result)
		count_result(call, number, result);
}

/* The call of the program for which the image makes one; NO_CALL: for none. */
static __always_inline __u32 made_for(const struct task *t, __u32 number)
{
	struct call_key key = { .program = t->program, .call = number };
	__u32 *call = bpf_map_lookup_elem(&instead, &key);
	return call ? *call : NO_CALL;
}

/*
 * Whether a task calls the kernel for dilation: in the image, or since who dilates it makes it. What prepares a program
 * lies behind its vDSO.
 */
static __always_inline bool is_of_dilation(struct task_struct *p, const struct task *t, const struct pt_regs *regs)
{
	if (!config.image)
		return 0;
	if (regs->ip >> 32 == config.image)
		return 1;
	struct mm_struct *mm = t->starting ? p->mm : 0;
	if (mm && regs->ip - (__u64)mm->context.vdso < VDSO_SIZE)
		return 1;
	__u32 first = 0;
	struct seen *all = p->ptrace ? bpf_map_lookup_elem(&seen, &first) : 0;
	return all && (__u32)p->parent->tgid == all->harness;
}

/* Called once by the process that dilates. */
SEC("raw_tp")
int note_harness(void *context)
{
	__u32 first = 0;
	struct seen *all = bpf_map_lookup_elem(&seen, &first);
	if (all)
		all->harness = bpf_get_current_pid_tgid() >> 32;
	return 0;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(on_enter, struct pt_regs *regs, long number)
{
	struct task_struct *p = bpf_get_current_task_btf();
	struct task *t = task_of(p);
	if (!t || !t->program)
		return 0;
	__u64 now = bpf_ktime_get_ns();
	if (!is_of_dilation(p, t, regs)) {
		t->starting = 0;
		begin_call(t, number, now);
		return 0;
	}
	if (number == RT_SIGRETURN && t->trapped) {
		t->trapped = 0;
		if (t->call == NO_CALL)
			return 0;
		if (t->image_call != NO_CALL) {
			struct call_key key = { .program = t->program, .call = t->image_call };
			__u32 call = t->call;
			bpf_map_update_elem(&instead, &key, &call, BPF_ANY);
		}
		end_call(t, now, 0, 0);
		return 0;
	}
	t->image_entered = now;
	/* It looks so whether memory can be read (`crates/clock/guest/user.c`). */
	if (number == RT_SIGPROCMASK && regs->di == NO_HOW)
		return 0;
	t->image_call = number;
	/* At a site that has been changed the image makes the call that the program would have made. */
	__u32 instead_of = made_for(t, number);
	if (!t->trapped && !t->starting && !p->ptrace && t->call == NO_CALL && instead_of != NO_CALL)
		begin_call(t, instead_of, now);
	return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(on_exit, struct pt_regs *regs, long result)
{
	struct task_struct *p = bpf_get_current_task_btf();
	struct task *t = task_of(p);
	if (!t || !t->program)
		return 0;
	if (t->image_entered) {
		__u64 now = bpf_ktime_get_ns();
		struct total *n = total_of(t->program);
		if (n) {
			__sync_fetch_and_add(&n->image_calls, 1);
			__sync_fetch_and_add(&n->image_ns, now - t->image_entered);
		}
		t->image_entered = 0;
		if (t->call == NO_CALL || (t->call != t->image_call && t->call != made_for(t, t->image_call)))
			return 0;
		struct call *call = call_of(t->program, t->call);
		if (call && t->trapped)
			count_result(call, t->call, result);
		else if (call)
			__sync_fetch_and_add(&call->trapped, 1);
		if (!t->trapped)
			end_call(t, now, 1, result);
		return 0;
	}
	if (t->call != NO_CALL && !t->trapped) {
		end_call(t, bpf_ktime_get_ns(), 1, result);
		return 0;
	}
	/* It never entered the kernel: a filter refused it. */
	if (config.image && result == -ENOSYS && t->call == NO_CALL && !is_of_dilation(p, t, regs)) {
		__u64 now = bpf_ktime_get_ns();
		begin_call(t, regs->orig_ax, now);
		struct call *call = call_of(t->program, t->call);
		if (call)
			__sync_fetch_and_add(&call->refused, 1);
		end_call(t, now, 1, result);
	}
	return 0;
}

SEC("tp_btf/signal_deliver")
int BPF_PROG(on_signal, int signal, struct kernel_siginfo *info, void *action)
{
	if (signal != SIGSYS || !config.image)
		return 0;
	struct task *t = task_of(bpf_get_current_task_btf());
	if (!t || !t->program || info->si_code != SYS_SECCOMP)
		return 0;
	t->starting = 0;
	begin_call(t, info->_sifields._sigsys._syscall, bpf_ktime_get_ns());
	t->trapped = 1;
	t->image_call = NO_CALL;
	struct call *call = call_of(t->program, t->call);
	if (call)
		__sync_fetch_and_add(&call->trapped, 1);
	return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	struct task *of = task_of(parent);
	if (!of)
		return 0;
	struct task *t = begin_task(child, of->subject, of->group);
	if (!t)
		return 0;
	t->program = of->program;
	t->starting = of->starting;
	t->voluntary = t->involuntary = t->faults = t->cpu_ns = 0;
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *p)
{
	struct task *t = task_of(p);
	if (!t)
		return 0;
	__u64 now = bpf_ktime_get_ns();
	if (t->program) {
		settle(t, p);
		if (t->call != NO_CALL)
			end_call(t, now, 1, 0);
	} else {
		remember_totals(t, p);
	}
	bool is_first = !t->program;
	t->program = program_of(t->subject, p);
	t->last = NO_CALL;
	t->trapped = 0;
	t->image_entered = 0;
	t->starting = 1;
	/* Who came from outside and executes a program here does so as its first call. */
	if (is_first) {
		begin_call(t, EXECVE, now);
		end_call(t, now, 1, 0);
	}
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct task *t = bpf_task_storage_get(&tasks, prev, 0, 0);
	if (t && t->subject && t->program)
		settle(t, prev);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_end, struct task_struct *p)
{
	struct task *t = bpf_task_storage_get(&tasks, p, 0, 0);
	if (t && t->subject && t->program)
		settle(t, p);
	return 0;
}
