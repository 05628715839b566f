/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * Keeps the clocks of nodes: each stands still while its node waits for the core, and goes on with the node's work
 * while that has it. `crates/scale/include/node_clock.h` says what the clock is, `crates/cpu/src/node_clock.rs` how
 * it is used.
 *
 * All that is done to one node is done on its core or under that core's run-queue lock (switches and wake-ups are
 * traced there), so only `floor`, which others raise too, needs an atomic operation.
 */
#include "kernel.h"
#include "../../scale/include/node_clock.h"

char _license[] SEC("license") = "GPL";

/* Of any machine. */
#define MOST_CPUS 1024
#define BUCKETS 32

/* How many slices a thread may have been kept from the core, for the work of which it catches up. */
#define MOST_SLICES_BEHIND 8

/* `struct Config` of the loader. */
struct {
	__u64 cores[MOST_CPUS / 64]; /* those on which there are nodes: a bit each */
	__u64 slice; /* how long a thread keeps the core, ns */
} const volatile config = {};

/* A page for each node, which programs map. */
struct inner {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, 4);
	__uint(value_size, 4096);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__uint(key_size, 4);
	__array(values, struct inner);
} clocks SEC(".maps");

/* `struct NodeWords` of the loader, which writes the first four. */
struct node {
	__u64 rate;    /* of its clock while one of its CPUs has the core */
	__u64 share;   /* of its core, for each of its CPUs, 2^-32 */
	__u32 burner;  /* which burner has its share while it sleeps */
	__u32 cpus;
	__u32 runnable;
	__u32 round;        /* how many threads are still to have the core in this round */
	__u64 round_from;   /* until when the one of this round had worked that had worked least */
	__u64 all_cpus;     /* by when all of its CPUs together could have done its work, by its clock */
	__u64 counted; /* until when `wanted` is counted: real ns */
	__u64 wanted;  /* integral of its CPUs at work over real time, in ns of a CPU */
	__s64 lead;    /* of its clock over the run's when it last got the core or left it, real ns */
	__u64 since;  /* when it last began to run, to wait or to be idle: real ns */
	__u64 ran;    /* for how long it had its core, real ns */
	__u64 waited; /* for how long it wanted it and did not have it */
	__u64 slices; /* how often it has had it */
	__u64 worked; /* by how much its clock has gone on while it had the core */
	__u32 behind[BUCKETS]; /* log2 of µs by which it was behind the run's clock when it got the core */
	__u32 ahead[BUCKETS];  /* log2 of µs by which it was ahead when it went to sleep */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct node);
} nodes SEC(".maps");

/* `struct BurnerWords`: what the nodes that share a burner want of the core. */
struct burner {
	__u64 awake; /* sum of the shares of the nodes that do not sleep, 2^-32 */
	__u64 since; /* when that changed last, real ns */
	__u64 owed;  /* integral of `awake` over real time until then, in ns of the core times 2^-16 */
	__u64 unused[5];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct burner);
} burners SEC(".maps");

/* Which node a control group is of, counted from 1. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u64);
	__type(value, __u32);
} groups SEC(".maps");

/* Which node an interface is of, counted from 1, by the last four bytes of its hardware address. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} senders SEC(".maps");

struct core {
	__u32 running; /* which node has it, counted from 1 */
	__u32 unused;
	__u64 precise_timer; /* real instant for which the timer was set whose callback runs now; 0: none */
	__u64 coarse_timer;
	__u64 seen;    /* not before this has its thread worked for what it does since `seen_at`; 0: nothing */
	__u64 seen_at; /* real ns */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MOST_CPUS);
	__type(key, __u32);
	__type(value, struct core);
} cores SEC(".maps");

struct task {
	__u64 group; /* address of the task's group, by which a change of group shows */
	__u32 node;
	__u32 counted; /* among `runnable` */
	__u64 own;     /* until when it has worked, by the node's clock, where the node has several CPUs */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task);
} tasks SEC(".maps");

static __always_inline bool has_nodes(__u32 cpu)
{
	return cpu < MOST_CPUS && config.cores[cpu / 64 % (MOST_CPUS / 64)] >> (cpu % 64) & 1;
}

/* The record of a task that is a node's, else nothing. */
static __always_inline struct task *task_of(struct task_struct *p)
{
	struct task_group *group = p->sched_task_group;
	struct task *task = bpf_task_storage_get(&tasks, p, 0, 0);
	if (task && task->group == (__u64)group)
		return task->node ? task : 0;
	/* The container's group, or one that it has made, is in the node's. */
	__u64 id = group->parent ? group->parent->css.cgroup->kn->id : 0;
	__u32 *node = bpf_map_lookup_elem(&groups, &id);
	if (!node && group->parent) {
		id = group->parent->parent ? group->parent->parent->css.cgroup->kn->id : 0;
		node = bpf_map_lookup_elem(&groups, &id);
	}
	if (!node && !task)
		return 0;
	task = bpf_task_storage_get(&tasks, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!task)
		return 0;
	task->group = (__u64)group;
	task->node = node ? *node : 0;
	return node ? task : 0;
}

static __always_inline struct node *node_at(__u32 node)
{
	__u32 key = node - 1;
	return bpf_map_lookup_elem(&nodes, &key);
}

static __always_inline struct node_clock *clock_at(__u32 node)
{
	__u32 key = node - 1, first = 0;
	void *inner = bpf_map_lookup_elem(&clocks, &key);
	return inner ? bpf_map_lookup_elem(inner, &first) : 0;
}

/* By how much a clock at this rate goes on between two real instants. */
static __always_inline __u64 gone_on(const struct node_clock *c, __u64 from, __u64 real)
{
	__u64 passed = real > from ? real - from : 0;
	return passed * c->rate >> NODE_CLOCK_RATE_BITS;
}

static __always_inline __u64 passed_on(const struct node_clock *c, __u64 real)
{
	return gone_on(c, c->base_real, real);
}

static __always_inline __u64 shown(const struct node_clock *c, __u64 real)
{
	__u64 clock = c->base + passed_on(c, real);
	__u64 floor = *(const volatile __u64 *)&c->floor;
	return clock > floor ? clock : floor;
}

static __always_inline void raise(struct node_clock *c, __u64 to)
{
	__u64 floor = *(const volatile __u64 *)&c->floor;
	for (int i = 0; i < 8 && floor < to; i++) {
		__u64 was = __sync_val_compare_and_swap(&c->floor, floor, to);
		if (was == floor)
			return;
		floor = was;
	}
}

/* From `now` on the clock goes on from `base` at `rate`. */
static __always_inline void set(struct node_clock *c, __u32 state, __u64 now, __u64 base, __u64 rate)
{
	volatile struct node_clock *page = c;
	page->sequence++;
	barrier();
	page->state = state;
	page->base_real = now;
	page->base = base;
	page->rate = rate;
	barrier();
	page->sequence++;
}

static __always_inline void tally(__u32 *histogram, __u64 from, __u64 to)
{
	__u64 us = to > from ? (to - from) >> 10 : 0;
	__u32 bucket = 0;
	for (int i = 16; i; i /= 2)
		if (us >> i) {
			us >>= i;
			bucket += i;
		}
	bucket += !!us;
	histogram[bucket % BUCKETS]++;
}

/* How many of a node's CPUs are at work: as many as threads can run. */
static __always_inline __u32 at_work(const struct node *n)
{
	return n->runnable < n->cpus ? n->runnable : n->cpus;
}

/* Counts how many CPUs have been at work until now. */
static __always_inline void tally_cpus(struct node *n, __u64 now)
{
	n->wanted += now > n->counted ? (now - n->counted) * at_work(n) : 0;
	n->counted = now;
}

/* The nodes of a burner want more of the core, or less. */
static __always_inline void change_awake(struct node *n, __u64 now, __s64 cpus)
{
	__u32 key = n->burner;
	struct burner *b = bpf_map_lookup_elem(&burners, &key);
	if (!b)
		return;
	__u64 passed = now > b->since ? now - b->since : 0;
	b->owed += (b->awake >> 16) * passed;
	b->since = now;
	b->awake += cpus * n->share;
}

/* One thread more of a node can run, or one less. */
static __always_inline void change_runnable(struct node *n, __s32 by, __u64 now)
{
	__u32 before = at_work(n);
	tally_cpus(n, now);
	if (by > 0 || n->runnable)
		n->runnable += by;
	__s64 change = (__s64)at_work(n) - before;
	if (change)
		change_awake(n, now, change);
}

/*
 * With several CPUs each thread has one of its own, so that a node's clock goes on with the work of the one that has
 * done most, and stands while the core does what others should have done at the same time. `own` of a thread is until
 * when it has worked.
 *
 * All of them together do no more than all CPUs can: `all_cpus` goes on by each one's part of its work. What could have
 * been done before the thread that has done least is lost: that thread is looked for in rounds, in which each that can
 * run has the core about once.
 */
static __always_inline __u64 begin_to_work(struct node *n, struct task *task, __u64 clock)
{
	__u64 most = MOST_SLICES_BEHIND * (config.slice * n->rate >> NODE_CLOCK_RATE_BITS);
	__u64 from = clock > most && task->own < clock - most ? clock - most : task->own;
	if (from < n->round_from)
		n->round_from = from;
	if (n->round > 1) {
		n->round--;
		return from;
	}
	if (n->all_cpus < n->round_from)
		n->all_cpus = n->round_from;
	n->round_from = ~0ull;
	n->round = n->runnable;
	return from;
}

/* Until when the thread that has the core has worked. */
static __always_inline __u64 worked_until(const struct node_clock *c, const struct core *core, __u64 now)
{
	__u64 own = c->base + passed_on(c, now);
	if (core->seen) {
		__u64 then = core->seen + gone_on(c, core->seen_at, now);
		if (own < then)
			own = then;
	}
	return own;
}

static __always_inline __u64 end_of_work(
	struct node *n, struct node_clock *c, struct task *task, struct core *core, __u64 now)
{
	n->all_cpus += passed_on(c, now) / (n->cpus ? n->cpus : 1);
	task->own = worked_until(c, core, now);
	core->seen = 0;
	if (task->own < n->all_cpus)
		task->own = n->all_cpus;
	return task->own;
}

/* Counts a thread that can run among those of its node. */
static __always_inline void count(struct task *task, __u64 now)
{
	struct node *n = node_at(task->node);
	struct node_clock *c = clock_at(task->node);
	if (task->counted || !n || !c)
		return;
	task->counted = 1;
	bool slept = !n->runnable;
	change_runnable(n, 1, now);
	if (!slept)
		return;
	n->since = now;
	n->round = 0;
	n->round_from = ~0ull;
	if (n->all_cpus < task->own)
		n->all_cpus = task->own;
	/* Where the node was idle, its clock has been the run's; its own begins where its own ended, or at the event. */
	set(c, NODE_WAITS, now, c->floor, 0);
}

/*
 * The instant of the event by which a thread of a node is woken now; 0 if another thread of the node wakes it. A
 * timer's is the one that it was set for, which the kernel may be late for; everything else happens now.
 */
static __always_inline __u64 event_for(__u32 node, __u64 now)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct core *core = bpf_map_lookup_elem(&cores, &cpu);
	if (!core)
		return now;
	__u64 timer = core->precise_timer;
	if (timer)
		return timer < now ? timer : now;
	return core->running == node && !core->coarse_timer ? 0 : now;
}

static __always_inline void woken(struct task_struct *p)
{
	/* What a node's threads have run on before they joined it does not matter. */
	if (!has_nodes(p->thread_info.cpu))
		return;
	struct task *task = task_of(p);
	if (!task)
		return;
	struct node_clock *c = clock_at(task->node);
	if (!c)
		return;
	__u64 now = bpf_ktime_get_ns(), event = event_for(task->node, now);
	if (event)
		raise(c, event);
	/* It has not worked after it went to sleep, nor before it was woken: by an event, or by the thread that runs. */
	__u64 from = event ? event : c->base + passed_on(c, now);
	if (!task->counted && task->own < from)
		task->own = from;
	count(task, now);
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(on_wakeup, struct task_struct *p)
{
	woken(p);
	return 0;
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(on_wakeup_new, struct task_struct *p)
{
	woken(p);
	return 0;
}

static __always_inline void leaves(struct task *task, struct core *core, bool sleeps, bool stays, __u64 now)
{
	struct node *n = node_at(task->node);
	struct node_clock *c = clock_at(task->node);
	if (!n || !c)
		return;
	if (sleeps && task->counted) {
		task->counted = 0;
		change_runnable(n, -1, now);
	}
	if (stays && n->cpus == 1)
		return;
	__u64 own = shown(c, now), worked = n->cpus > 1 ? end_of_work(n, c, task, core, now) : 0;
	if (own < worked)
		own = worked;
	n->worked += passed_on(c, now);
	raise(c, own);
	if (stays)
		return;
	tally_cpus(n, now);
	n->ran += now > n->since ? now - n->since : 0;
	n->since = now;
	n->lead = own - now;
	if (n->runnable) {
		set(c, NODE_WAITS, now, own, 0);
	} else {
		tally(n->ahead, now, own);
		set(c, NODE_IDLE, now, now, NODE_CLOCK_UNIT);
	}
}

/* A thread gets the core, after one of another node or (`stays`) of its own. */
static __always_inline void comes(struct task *task, bool stays, __u64 now)
{
	struct node *n = node_at(task->node);
	struct node_clock *c = clock_at(task->node);
	if (!n || !c || (stays && n->cpus == 1))
		return;
	__u64 clock = c->floor, from = n->cpus > 1 ? begin_to_work(n, task, clock) : clock;
	if (!stays) {
		tally_cpus(n, now);
		n->waited += now > n->since ? now - n->since : 0;
		n->since = now;
		n->slices++;
		n->lead = clock - now;
		tally(n->behind, clock, now);
	}
	set(c, NODE_RUNS, now, from, n->rate);
}

/* Counts a thread that nobody has woken as one of its node: it was moved there, and has read the run's clock before. */
static __always_inline void joins(struct task *task, __u64 now)
{
	struct node_clock *c = clock_at(task->node);
	if (task->counted || !c)
		return;
	raise(c, now);
	task->own = now;
	count(task, now);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	__u32 cpu = bpf_get_smp_processor_id();
	if (!has_nodes(cpu))
		return 0;
	struct core *core = bpf_map_lookup_elem(&cores, &cpu);
	if (!core)
		return 0;
	__u64 now = bpf_ktime_get_ns();
	struct task *from = task_of(prev), *to = task_of(next);
	/* A thread that the kernel has put to sleep; one that a signal has kept from it is running again. */
	bool sleeps = !preempt && prev->__state;
	if (to)
		joins(to, now);
	if (from && core->running != from->node) {
		/* It has come into the node's group while it ran, and has read the run's clock until now. */
		joins(from, now);
		comes(from, 0, now);
	}
	bool stays = from && to && to->node == from->node;
	if (from)
		leaves(from, core, sleeps, stays, now);
	if (to)
		comes(to, stays, now);
	core->running = to ? to->node : 0;
	return 0;
}

/*
 * The thread that has the core takes data of a frame: it does what it does with them after that has come. Without this
 * a thread that is behind, and finds a frame that came for others or while it worked, would answer before its time.
 * Which frame it is cannot be told here; none came after the last.
 */
static __always_inline void receives(void)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct core *core = has_nodes(cpu) ? bpf_map_lookup_elem(&cores, &cpu) : 0;
	if (!core || !core->running)
		return;
	struct node *n = node_at(core->running);
	struct node_clock *c = clock_at(core->running);
	if (!c || !n || n->cpus < 2)
		return;
	__u64 now = bpf_ktime_get_ns(), delivered = *(const volatile __u64 *)&c->delivered;
	if (delivered > worked_until(c, core, now)) {
		core->seen_at = now;
		core->seen = delivered;
	}
}

/* From Linux 6.3 on. */
SEC("tp_btf/sock_recv_length")
int BPF_PROG(on_receive)
{
	receives();
	return 0;
}

/* Before, where short datagrams do not come this way. */
SEC("tp_btf/skb_copy_datagram_iovec")
int BPF_PROG(on_copy)
{
	receives();
	return 0;
}

SEC("tp_btf/hrtimer_expire_entry")
int BPF_PROG(on_precise_timer, struct hrtimer *timer)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct core *core = bpf_map_lookup_elem(&cores, &cpu);
	if (core)
		core->precise_timer = timer->_softexpires - timer->base->offset;
	return 0;
}

SEC("tp_btf/hrtimer_expire_exit")
int BPF_PROG(on_precise_timer_end)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct core *core = bpf_map_lookup_elem(&cores, &cpu);
	if (core)
		core->precise_timer = 0;
	return 0;
}

SEC("tp_btf/timer_expire_entry")
int BPF_PROG(on_coarse_timer)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct core *core = bpf_map_lookup_elem(&cores, &cpu);
	if (core)
		core->coarse_timer = 1;
	return 0;
}

SEC("tp_btf/timer_expire_exit")
int BPF_PROG(on_coarse_timer_end)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct core *core = bpf_map_lookup_elem(&cores, &cpu);
	if (core)
		core->coarse_timer = 0;
	return 0;
}

/*
 * Writes into the source address of a frame when its sender sent it, if that is the program of the node that has
 * the core; what the kernel sends by itself, in an interrupt, is left as it is. `crates/net` takes the stamp out
 * again, and says how it is laid out.
 */
SEC("tc")
int stamp(struct __sk_buff *skb)
{
	__u8 *frame = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	if (frame + 14 > end || frame[6] != 2 || frame[7] != 0)
		return TC_ACT_OK;
	__u32 cpu = bpf_get_smp_processor_id();
	struct core *core = bpf_map_lookup_elem(&cores, &cpu);
	if (!core || !core->running || core->precise_timer || core->coarse_timer)
		return TC_ACT_OK;
	__u32 address;
	__builtin_memcpy(&address, frame + 8, 4);
	__u32 *node = bpf_map_lookup_elem(&senders, &address);
	if (!node || *node != core->running)
		return TC_ACT_OK;
	struct node_clock *c = clock_at(*node);
	if (!c)
		return TC_ACT_OK;
	struct node *n = node_at(*node);
	__u64 now = bpf_ktime_get_ns();
	__u64 at = (n && n->cpus > 1 ? worked_until(c, core, now) : shown(c, now)) >> 4;
	frame[6] = (at >> 40 & 0x7f) << 1 | 1;
	frame[7] = at >> 32;
	frame[8] = at >> 24;
	frame[9] = at >> 16;
	frame[10] = at >> 8;
	frame[11] = at;
	return TC_ACT_OK;
}
