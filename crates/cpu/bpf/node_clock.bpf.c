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

#define SECOND 1000000000ull
#define EAGAIN 11

/* `struct Config` of the loader. */
struct {
	__u64 cores[MOST_CPUS / 64]; /* those on which there are nodes: a bit each */
	__u64 slice; /* how long a thread keeps the core, ns */
	__u64 traces_end_of_datagrams; /* whether the kernel tells of them when they are done with */
	__u64 changes_places; /* whether it tells of what comes to sockets, and a node has several CPUs */
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
	__u64 uncounted; /* how often the kernel had no memory for what is kept of one of its threads */
	__u64 counts; /* as how much it counts among those that do not sleep, 2^-32 */
	__u64 group;  /* the address of its control group, as the scheduler knows it */
	__u64 entity; /* the address of what the scheduler keeps of it on its core */
	__u64 queued; /* whether the scheduler keeps it in the core's queue, though it sleeps */
	__u64 looks;  /* how often a thread looked at a socket, again and again, and found nothing */
	__u64 looks_ahead; /* by how much its clock was ahead of the run's then, all together, real ns */
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

/* `struct CoreWords` of the loader. */
struct core {
	__u64 group;   /* the control group of the thread that has it */
	__u32 running; /* which node has it, counted from 1 */
	__u32 empty; /* how often its thread has looked at sockets since it got the core, and found nothing */
	__u64 precise_timer; /* real instant for which the timer was set whose callback runs now; 0: none */
	__u64 coarse_timer;
	__u64 socket; /* to which something came last */
	__u64 socket_at;
	__u32 port; /* of it, if it is one for connections */
	__u32 unused2;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, MOST_CPUS);
	__type(key, __u32);
	__type(value, struct core);
} cores SEC(".maps");

/* A thread of a node with several CPUs that was woken by what came to a socket, and has not had the core since. */
struct waiter {
	__u64 own;    /* until when it has worked: from then on it could have begun */
	__u64 socket; /* whose */
	__u32 port;   /* of connections, if that is what came */
	__u32 pid;    /* 0: nobody */
};

/* Those of a node. Where more wait, who came first is forgotten. */
#define MOST_WAITERS 8
struct waiters {
	__u32 next;
	__u32 unused;
	struct waiter all[MOST_WAITERS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct waiters);
} waiters SEC(".maps");

struct task {
	__u64 group; /* address of the task's group, by which a change of group shows */
	__u32 node;
	__u32 counted; /* among `runnable` */
	__u64 own;     /* until when it has worked, by the node's clock */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task);
} tasks SEC(".maps");

/* Of a socket for datagrams from which a node's thread has received. */
struct datagrams {
	__u64 first; /* the date of that which is taken next, as far as known; 0: it is not */
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct datagrams);
} sockets SEC(".maps");

static __always_inline bool has_nodes(__u32 cpu)
{
	return cpu < MOST_CPUS && config.cores[cpu / 64 % (MOST_CPUS / 64)] >> (cpu % 64) & 1;
}

static __always_inline struct node *node_at(__u32 node)
{
	__u32 key = node - 1;
	return bpf_map_lookup_elem(&nodes, &key);
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
	if (!task) {
		struct node *of = node ? node_at(*node) : 0;
		if (of)
			of->uncounted++;
		return 0;
	}
	task->group = (__u64)group;
	task->node = node ? *node : 0;
	struct node *of = node ? node_at(*node) : 0;
	if (of && !of->group)
		of->group = (__u64)(id == group->parent->css.cgroup->kn->id ? group->parent : group->parent->parent);
	return node ? task : 0;
}

/* The scheduler's entity of a node on this core: an address, by which it is only ever read. */
static __always_inline __u64 entity_of(const struct node *n, __u32 cpu)
{
	const struct task_group *group = (const void *)n->group;
	__u64 *all = group ? (void *)BPF_CORE_READ(group, se) : 0, entity = 0;
	if (all)
		bpf_probe_read_kernel(&entity, sizeof(entity), &all[cpu]);
	return entity;
}

/*
 * Whether a node is in its core's queue. From Linux 6.12 on one that goes to sleep after it has had more than it was
 * owed stays there until the others have had as much.
 */
static __always_inline bool in_queue(const struct node *n)
{
	const struct sched_entity *entity = (const void *)n->entity;
	return entity && BPF_CORE_READ(entity, on_rq);
}

static __always_inline struct waiters *waiters_at(__u32 node)
{
	__u32 key = node - 1;
	return bpf_map_lookup_elem(&waiters, &key);
}

static __always_inline struct node_clock *clock_at(__u32 node)
{
	__u32 key = node - 1, first = 0;
	void *inner = bpf_map_lookup_elem(&clocks, &key);
	return inner ? bpf_map_lookup_elem(inner, &first) : 0;
}

/* By how much the clock has gone on since its line began. */
static __always_inline __u64 passed_on(const struct node_clock *c, __u64 real)
{
	__u64 passed = real > c->base_real ? real - c->base_real : 0;
	return passed * c->rate >> NODE_CLOCK_RATE_BITS;
}

static __always_inline __u64 shown(const struct node_clock *c, __u64 real)
{
	__u64 clock = c->base + passed_on(c, real);
	__u64 floor = *(const volatile __u64 *)&c->floor;
	return clock > floor ? clock : floor;
}

/* Until when the thread that has the core has worked. */
static __always_inline __u64 worked_until(const struct node_clock *c, __u64 real)
{
	__u64 own = c->base + passed_on(c, real);
	__u64 raised = *(const volatile __u64 *)&c->raised;
	return own > raised ? own : raised;
}

/* Has a word that only grows be no less than this. */
static __always_inline void raise(__u64 *word, __u64 to)
{
	__u64 is = *(const volatile __u64 *)word;
	for (int i = 0; i < 8 && is < to; i++) {
		__u64 was = __sync_val_compare_and_swap(word, is, to);
		if (was == is)
			return;
		is = was;
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

/* The nodes of a burner want more of the core, or less: other CPUs of one are at work, or its share is another. */
static __always_inline void change_awake(struct node *n, __u64 now)
{
	__u64 wants = at_work(n) * *(volatile __u64 *)&n->share;
	if (wants == n->counts)
		return;
	__u32 key = n->burner;
	struct burner *b = bpf_map_lookup_elem(&burners, &key);
	if (!b)
		return;
	__u64 passed = now > b->since ? now - b->since : 0;
	b->owed += (b->awake >> 16) * passed;
	b->since = now;
	b->awake += wants - n->counts;
	n->counts = wants;
}

/* One thread more of a node can run, or one less. */
static __always_inline void change_runnable(struct node *n, struct node_clock *c, __s32 by, __u64 now)
{
	tally_cpus(n, now);
	if (by > 0 || n->runnable)
		n->runnable += by;
	c->crowded = n->runnable > n->cpus;
	change_awake(n, now);
}

/*
 * `own` of a thread is until when it has worked. What happens to a node, and to its other threads, while it waits for
 * the core or works, does not move that: only what the thread itself is woken by, or takes. A node's clock shows the
 * furthest of its threads.
 *
 * All threads together do no more than all CPUs can: `all_cpus` goes on by each one's part of its work. With one CPU
 * nobody begins before it; with several each has one of its own, and where there are more threads than CPUs, nobody's
 * work ends before it. What could have been done before the thread that has done least is lost: that thread is looked
 * for in rounds, in which each that can run has the core about once. What the node is behind by more than a few of its
 * slices is lost, too.
 */
static __always_inline __u64 begin_to_work(
	struct node *n, const struct node_clock *c, struct task *task, __u64 clock, __u64 now)
{
	__u64 most = MOST_SLICES_BEHIND * (config.slice * n->rate >> NODE_CLOCK_RATE_BITS);
	__u64 from = task->own, raised = *(const volatile __u64 *)&c->raised;
	__u64 reference = n->cpus == 1 ? now : clock;
	if (reference > most && from < reference - most)
		from = reference - most;
	if (from < raised)
		from = raised;
	if (n->cpus == 1 && from < n->all_cpus)
		from = n->all_cpus;
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

/* Counts what the thread that has the core has done since the clock's line began; until when it has worked. */
static __always_inline __u64 count_work(struct node *n, const struct node_clock *c, __u64 now)
{
	__u64 passed = passed_on(c, now);
	n->worked += passed;
	n->all_cpus += passed / (n->cpus ? n->cpus : 1);
	return worked_until(c, now);
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
	change_runnable(n, c, 1, now);
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
 * timer's is the one that it was set for, which the kernel may be late for; that of the answer of a disk the one at
 * which it came, as what the node asked for while it was behind may have come before now; everything else happens now.
 */
static __always_inline __u64 event_for(
	struct task_struct *waiter, const struct task *task, const struct node_clock *c, __u64 now)
{
	__u32 node = task->node;
	if (BPF_CORE_READ_BITFIELD(waiter, in_iowait)) {
		__u64 answered = *(const volatile __u64 *)&c->answered;
		/* Else it is none that the thread has waited for. */
		if (answered > task->own && answered < now)
			return answered;
	}
	__u32 cpu = bpf_get_smp_processor_id();
	struct core *core = bpf_map_lookup_elem(&cores, &cpu);
	if (!core)
		return now;
	__u64 timer = core->precise_timer;
	if (timer)
		return timer < now ? timer : now;
	return core->running == node && !core->coarse_timer ? 0 : now;
}

/* Whoever wakes up because of a socket does within so many ns of what comes to that. */
#define SOON 50000

/* Notes a thread that has been woken by what came to a socket: it may have to wait for the core. */
static __always_inline void note_waiter(const struct node *n, const struct task *task, __u32 pid, __u64 now)
{
	if (n->cpus < 2)
		return;
	__u32 cpu = bpf_get_smp_processor_id();
	struct core *core = bpf_map_lookup_elem(&cores, &cpu);
	if (!core || !core->socket || now > core->socket_at + SOON)
		return;
	struct waiters *w = waiters_at(task->node);
	if (!w)
		return;
	struct waiter *to = &w->all[w->next++ % MOST_WAITERS];
	to->pid = 0;
	barrier();
	to->own = task->own;
	to->socket = core->socket;
	to->port = core->port;
	barrier();
	to->pid = pid;
}

/* The thread has the core: it waits no longer. Somebody may have changed places with it. */
static __always_inline void forget_waiter(const struct node *n, struct task *task, __u32 pid)
{
	struct waiters *w = n->cpus > 1 ? waiters_at(task->node) : 0;
	for (int i = 0; w && i < MOST_WAITERS; i++)
		if (w->all[i].pid == pid) {
			task->own = w->all[i].own;
			w->all[i].pid = 0;
			return;
		}
}

/*
 * The thread that has the core takes what came to a socket, or the first data of a connection to a port, and others
 * of its node were woken for that and have not had the core since. The CPU of one of those was free before its own,
 * and that would have taken it: so the two change places. The thread goes on from where the other could have begun,
 * and the other from where this one was done.
 */
static __always_inline void change_places(struct core *core, const void *socket, __u32 port)
{
	struct node *n = node_at(core->running);
	struct node_clock *c = clock_at(core->running);
	struct waiters *w = n && n->cpus > 1 ? waiters_at(core->running) : 0;
	if (!c || !w)
		return;
	__u64 now = bpf_ktime_get_ns(), own = worked_until(c, now), least = own;
	struct waiter *with = 0;
	for (int i = 0; i < MOST_WAITERS; i++)
		if (w->all[i].pid && (port ? w->all[i].port == port : w->all[i].socket == (__u64)socket) &&
		    w->all[i].own < least) {
			with = &w->all[i];
			least = with->own;
		}
	if (!with)
		return;
	count_work(n, c, now);
	with->own = own;
	set(c, NODE_RUNS, now, least, c->rate);
}

static __always_inline void woken(struct task_struct *p)
{
	/* Time that a node's threads have run before they joined it does not matter. */
	if (!has_nodes(p->thread_info.cpu))
		return;
	struct task *task = task_of(p);
	if (!task)
		return;
	struct node *n = node_at(task->node);
	struct node_clock *c = clock_at(task->node);
	if (!n || !c)
		return;
	__u64 now = bpf_ktime_get_ns(), event = event_for(p, task, c, now);
	if (task->counted) {
		/* It has not slept yet, and goes on with what it is woken for. */
		raise(&c->raised, event);
		raise(&c->floor, event);
		return;
	}
	/* It has not worked after it went to sleep, nor before it was woken: by an event, or by the thread that runs. */
	__u64 from = event ? event : c->base + passed_on(c, now);
	if (task->own < from)
		task->own = from;
	if (!n->runnable)
		raise(&c->floor, event);
	note_waiter(n, task, p->pid, now);
	count(task, now);
}

/* `struct Look` of the keeper: nodes that slept and were in the queue when it looked. */
#define MOST_LOOKED_AT 32
struct look {
	__u32 count;
	__u32 nodes[MOST_LOOKED_AT]; /* counted from 1 */
};

/* Looks which of some nodes have left the queue: nothing that can be traced happens then. */
SEC("syscall")
int look(struct look *at)
{
	/* Values handed over may be read at fixed places only. */
#pragma unroll
	for (__u32 i = 0; i < MOST_LOOKED_AT; i++) {
		struct node *n = i < at->count ? node_at(at->nodes[i]) : 0;
		if (n && !in_queue(n))
			n->queued = 0;
	}
	return 0;
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

static __always_inline void leaves(struct task *task, bool sleeps, bool stays, __u64 now)
{
	struct node *n = node_at(task->node);
	struct node_clock *c = clock_at(task->node);
	if (!n || !c)
		return;
	if (sleeps && task->counted) {
		task->counted = 0;
		change_runnable(n, c, -1, now);
	}
	task->own = count_work(n, c, now);
	if (n->runnable > n->cpus && task->own < n->all_cpus)
		task->own = n->all_cpus;
	__u64 own = shown(c, now);
	if (own < task->own)
		own = task->own;
	raise(&c->floor, own);
	if (stays)
		return;
	tally_cpus(n, now);
	n->ran += now > n->since ? now - n->since : 0;
	n->since = now;
	n->lead = own - now;
	if (n->runnable) {
		set(c, NODE_WAITS, now, own, 0);
	} else {
		n->queued = in_queue(n);
		tally(n->ahead, now, own);
		set(c, NODE_IDLE, now, now, NODE_CLOCK_UNIT);
	}
}

/* A thread gets the core, after one of another node or (`stays`) of its own. */
static __always_inline void comes(struct task *task, __u32 pid, bool stays, __u64 now)
{
	struct node *n = node_at(task->node);
	struct node_clock *c = clock_at(task->node);
	if (!n || !c)
		return;
	forget_waiter(n, task, pid);
	__u64 clock = c->floor, from = begin_to_work(n, c, task, clock, now);
	if (!stays) {
		if (!n->entity)
			n->entity = entity_of(n, bpf_get_smp_processor_id());
		tally_cpus(n, now);
		change_awake(n, now);
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
	raise(&c->floor, now);
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
		comes(from, prev->pid, 0, now);
	}
	bool stays = from && to && to->node == from->node;
	if (from)
		leaves(from, sleeps, stays, now);
	if (to)
		comes(to, next->pid, stays, now);
	core->running = to ? to->node : 0;
	core->empty = 0;
	core->group = next->sched_task_group->css.cgroup->kn->id;
	return 0;
}

/*
 * The thread that has the core takes data out of a frame: what it does with them it does after that has arrived. So a
 * thread that is behind, and finds a frame that came while it worked or for others, does not answer before its time;
 * and what arrives while it has other work to do does not move its clock.
 */
static __always_inline void takes(struct core *core, __u64 date)
{
	struct node *n = node_at(core->running);
	struct node_clock *c = clock_at(core->running);
	if (!n || !c)
		return;
	__u64 now = bpf_ktime_get_ns(), arrived = (date ? date : c->delivered + c->date) - c->date;
	/* It is not one that the emulator has handed over. */
	if (arrived > now + SECOND || arrived <= worked_until(c, now))
		return;
	/* Frames that its own queues have held back arrive as much later as the node was ahead when it sent them. */
	if (arrived > now && !c->queues)
		arrived = now;
	count_work(n, c, now);
	if (n->runnable < 2 && n->all_cpus < arrived)
		n->all_cpus = arrived;
	set(c, NODE_RUNS, now, arrived, c->rate);
	raise(&c->floor, arrived);
}

/* The core of this processor, if a thread of a node has it. */
static __always_inline struct core *core_of_node(void)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct core *core = has_nodes(cpu) ? bpf_map_lookup_elem(&cores, &cpu) : 0;
	return core && core->running ? core : 0;
}

/* The port of a connection of which nothing has been taken yet; 0: it is none. */
static __always_inline __u32 port_of_new(const struct sock *sk)
{
	if (!sk || BPF_CORE_READ(sk, sk_protocol) != TCP)
		return 0;
	const struct tcp_sock *tcp = (const void *)sk;
	__u64 received = BPF_CORE_READ(tcp, bytes_received);
	__u32 waiting = BPF_CORE_READ(tcp, rcv_nxt) - BPF_CORE_READ(tcp, copied_seq);
	return received == waiting ? BPF_CORE_READ(sk, __sk_common.skc_num) : 0;
}

SEC("tp_btf/skb_copy_datagram_iovec")
int BPF_PROG(on_copy, struct sk_buff *skb)
{
	struct core *core = core_of_node();
	if (!core || !skb->tstamp)
		return 0;
	if (config.changes_places) {
		__u32 port = port_of_new(skb->sk);
		if (port)
			change_places(core, 0, port);
	}
	takes(core, skb->tstamp);
	return 0;
}

/*
 * Datagrams may be copied otherwise, and their end is traced up to Linux 6.17 only. From then on the date of the one
 * that a socket has first is kept: it is the one that the next call takes.
 */
SEC("tp_btf/consume_skb")
int BPF_PROG(on_consume, struct sk_buff *skb)
{
	struct core *core = core_of_node();
	if (!core || !skb->tstamp)
		return 0;
	__u8 protocol = 0;
	const __u8 *packet = skb->head + skb->network_header;
	if (skb->protocol == IPV4)
		bpf_probe_read_kernel(&protocol, 1, packet + 9);
	else if (skb->protocol == IPV6)
		bpf_probe_read_kernel(&protocol, 1, packet + 6);
	if (protocol == UDP)
		takes(core, skb->tstamp);
	return 0;
}

static __always_inline bool is_for_datagrams(const struct sock *sk)
{
	__u16 family = sk->__sk_common.skc_family;
	return sk->sk_protocol == UDP && (family == AF_INET || family == AF_INET6);
}

/* The date of the datagram that the socket has first; 0: it has none. */
static __always_inline __u64 date_of_first(const struct sock *sk)
{
	const struct udp_sock *udp = (const void *)sk;
	const struct sk_buff *first = 0;
	if (BPF_CORE_READ(udp, reader_queue.qlen))
		first = BPF_CORE_READ(udp, reader_queue.next);
	else if (BPF_CORE_READ(sk, sk_receive_queue.qlen))
		first = BPF_CORE_READ(sk, sk_receive_queue.next);
	return first ? BPF_CORE_READ(first, tstamp) : 0;
}

/* After so many looks that found nothing a thread that has not slept does nothing but look. */
#define SPINS 16

/*
 * A look at a socket that does not block has found nothing. The image has polls last until the run's clock is where the
 * node's is (crates/clock/guest/poll.c), but does not see these.
 */
static __always_inline void finds_nothing(struct core *core)
{
	if (++core->empty <= SPINS)
		return;
	struct node *n = node_at(core->running);
	struct node_clock *c = clock_at(core->running);
	if (!n || !c)
		return;
	__u64 now = bpf_ktime_get_ns(), at = shown(c, now);
	n->looks++;
	n->looks_ahead += at > now ? at - now : 0;
}

SEC("tp_btf/sock_recv_length")
int BPF_PROG(on_receive, struct sock *sk, int length)
{
	struct core *core = core_of_node();
	if (!core)
		return 0;
	if (length == -EAGAIN) {
		finds_nothing(core);
		return 0;
	}
	core->empty = 0;
	if (length < 0 || !is_for_datagrams(sk))
		return 0;
	if (config.changes_places)
		change_places(core, sk, 0);
	if (config.traces_end_of_datagrams)
		return 0;
	struct datagrams *datagrams = bpf_sk_storage_get(&sockets, sk, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	/* Where it is not known which it was: none has come after the last. */
	takes(core, datagrams ? datagrams->first : 0);
	if (datagrams)
		datagrams->first = date_of_first(sk);
	return 0;
}

/* A socket has something to read: those who wait for that are woken next. */
SEC("tp_btf/sk_data_ready")
int BPF_PROG(on_data, struct sock *sk)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct core *core = config.changes_places ? bpf_map_lookup_elem(&cores, &cpu) : 0;
	if (core) {
		core->socket = (__u64)sk;
		core->socket_at = bpf_ktime_get_ns();
		core->port = sk->__sk_common.skc_state == TCP_LISTEN ? sk->__sk_common.skc_num : 0;
	}
	if (config.traces_end_of_datagrams)
		return 0;
	struct datagrams *datagrams = is_for_datagrams(sk) ? bpf_sk_storage_get(&sockets, sk, 0, 0) : 0;
	if (datagrams && !datagrams->first)
		datagrams->first = date_of_first(sk);
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

/* The core of this processor, if a program of a node has it and what is sent now is that program's doing. */
static __always_inline struct core *core_of_sender(void)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct core *core = bpf_map_lookup_elem(&cores, &cpu);
	return core && core->running && !core->precise_timer && !core->coarse_timer ? core : 0;
}

/* Of what is written into a frame: that it is a lead, in its lowest 46 bits, and no clock. */
#define IS_LEAD (1ull << 46)

/*
 * Writes into the source address of a frame when its sender sent it, if that is the program of the node that has
 * the core; what the kernel sends by itself, in an interrupt, is left as it is. Where the node has queues that hold
 * frames back behind this place, it writes how far the node was ahead of the run's clock: a frame leaves a queue by
 * real time. `crates/net` takes the stamp out again, and says how it is laid out.
 */
SEC("tc")
int stamp(struct __sk_buff *skb)
{
	__u8 *frame = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	if (frame + 14 > end || frame[6] != 2 || frame[7] != 0)
		return TC_ACT_OK;
	struct core *core = core_of_sender();
	if (!core)
		return TC_ACT_OK;
	__u32 address;
	__builtin_memcpy(&address, frame + 8, 4);
	__u32 *node = bpf_map_lookup_elem(&senders, &address);
	if (!node || *node != core->running)
		return TC_ACT_OK;
	struct node_clock *c = clock_at(*node);
	if (!c)
		return TC_ACT_OK;
	__u64 now = bpf_ktime_get_ns(), at = worked_until(c, now);
	at = c->queues ? (at - now) >> 4 | IS_LEAD : at >> 4 & ~IS_LEAD;
	frame[6] = (at >> 40 & 0x7f) << 1 | 1;
	frame[7] = at >> 32;
	frame[8] = at >> 24;
	frame[9] = at >> 16;
	frame[10] = at >> 8;
	frame[11] = at;
	return TC_ACT_OK;
}

/*
 * Writes into a frame that a node is handed when it arrives, where the kernel keeps when it has come: there it is found
 * when a thread of the node takes data out of it. What programs ask for that date have the exact one.
 */
SEC("tc")
int date(struct __sk_buff *skb)
{
	__u8 *frame = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	if (frame + 14 > end || frame[0] != 2 || frame[1] != 0)
		return TC_ACT_OK;
	__u32 address;
	__builtin_memcpy(&address, frame + 2, 4);
	__u32 *node = bpf_map_lookup_elem(&senders, &address);
	struct node_clock *c = node ? clock_at(*node) : 0;
	if (c)
		skb->tstamp = c->delivered + c->date;
	return TC_ACT_OK;
}

/*
 * Both for a node's loopback, once that has a queue: there is no emulator on the way, so the source address,
 * which is nothing but zeros there, carries the node's number and how far it was ahead.
 */
#define IS_OWN 3
#define LEAD_SHIFT 6 /* units of 64 ns: 0.5 s in 24 bits with a sign */

SEC("tc")
int stamp_own(struct __sk_buff *skb)
{
	__u8 *frame = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	if (frame + 14 > end || frame[6])
		return TC_ACT_OK;
	struct core *core = core_of_sender();
	__u32 node = core ? core->running : 0;
	struct node_clock *c = node && node <= 0xffff ? clock_at(node) : 0;
	if (!c)
		return TC_ACT_OK;
	__u64 now = bpf_ktime_get_ns();
	__s64 lead = (__s64)(worked_until(c, now) - now) >> LEAD_SHIFT;
	if (lead >= 1 << 23 || lead < -(1 << 23))
		return TC_ACT_OK;
	frame[6] = IS_OWN;
	frame[7] = node >> 8;
	frame[8] = node;
	frame[9] = lead >> 16;
	frame[10] = lead >> 8;
	frame[11] = lead;
	return TC_ACT_OK;
}

SEC("tc")
int date_own(struct __sk_buff *skb)
{
	__u8 *frame = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	if (frame + 14 > end || frame[6] != IS_OWN)
		return TC_ACT_OK;
	struct node_clock *c = clock_at(frame[7] << 8 | frame[8]);
	__s64 lead = (__s32)((__u32)frame[9] << 24 | (__u32)frame[10] << 16 | (__u32)frame[11] << 8) >> 8;
	__builtin_memset(frame + 6, 0, 6);
	if (c)
		skb->tstamp = bpf_ktime_get_ns() + (lead << LEAD_SHIFT) + c->date;
	return TC_ACT_OK;
}
