/*
 * The CPUs that a program sees: as many as its machine has, numbered from 0, although its threads share one core.
 *
 * The kernel would tell of that core. So which CPUs a thread may use is kept here, thread by thread, as Linux has it:
 * a program reads back what it has set, and threads and programs that it starts inherit it. It changes nothing else:
 * whoever has the core runs. And the number of the CPU on which a thread runs is one of those that it may use, the same
 * for as long as that set is: threads are dealt out over them.
 *
 * Who is started by whom only the call says that does it, and these do not trap. So the first thread that is given less
 * than all CPUs gets its process one more filter, which traps them (clone.c), there and in all descendants.
 */
#include "cpus.h"
#include "trap_outside.h"

#include <linux/audit.h>

/* Where a thread's set is; there is none of a thread that has never been given one. */
struct thread_cpus {
	i32 tid; /* 0: free */
	u32 by_another; /* another thread gave it, perhaps before this one has run */
	struct cpu_set cpus;
};
#define ROOM_FOR_THREADS ((DIORAMA_AFFINITY_SIZE - 2 * sizeof(struct cpu_set)) / sizeof(struct thread_cpus))

/* Untouched until a program gives a thread less than all CPUs, or is given less itself. */
struct affinity {
	struct cpu_set handed_on; /* to the program that is executed; the injector reads it (src/tracee.rs) */
	struct cpu_set usual; /* of threads that have none of their own: what the program itself was given */
	struct thread_cpus threads[];
};
#define AFFINITY ((struct affinity *)DIORAMA_AFFINITY)
_Static_assert(sizeof(struct affinity) + ROOM_FOR_THREADS * sizeof(struct thread_cpus) <= DIORAMA_AFFINITY_SIZE,
	       "all threads have room");
_Static_assert(DIORAMA_AFFINITY + DIORAMA_AFFINITY_SIZE == DIORAMA_STATE + DIORAMA_STATE_SIZE, "they end the state");

static struct cpu_set all_cpus(void)
{
	struct cpu_set set;
	for (u32 i = 0; i < DIORAMA_AFFINITY_WORDS; i++) {
		u32 before = i * 64, count = STATE->given.cpus > before ? (u32)STATE->given.cpus - before : 0;
		set.words[i] = count >= 64 ? ~0ull : (1ull << count) - 1;
	}
	return set;
}

static u32 count_of(const struct cpu_set *set)
{
	u32 count = 0;
	for (u32 i = 0; i < DIORAMA_AFFINITY_WORDS; i++)
		for (u64 rest = set->words[i]; rest; rest &= rest - 1)
			count++;
	return count;
}

static bool of_this_process(i32 tid)
{
	return syscall(__NR_tgkill, syscall(__NR_getpid), tid, 0) == 0;
}

/* A thread's place in the table, or one for it, if that is asked for; 0 if there is none. */
static struct thread_cpus *place_of(i32 tid, bool make)
{
	struct thread_cpus *all = AFFINITY->threads;
	u32 first = (u32)tid % ROOM_FOR_THREADS;
	for (u32 i = 0; i < ROOM_FOR_THREADS; i++) {
		struct thread_cpus *at = all + (first + i) % ROOM_FOR_THREADS;
		i32 found = __atomic_load_n(&at->tid, __ATOMIC_ACQUIRE);
		if (!found && make)
			__atomic_compare_exchange_n(&at->tid, &found, tid, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
		if (found == tid || (!found && make))
			return at;
		if (!found)
			return 0;
	}
	if (!make)
		return 0;
	/* More threads have had one than there is room for: most of them are gone. */
	u32 gone = 0;
	while (gone < ROOM_FOR_THREADS - 1 && of_this_process(all[gone].tid))
		gone++;
	all[gone].tid = tid;
	all[gone].by_another = false;
	return all + gone;
}

struct cpu_set cpus_of(i32 tid)
{
	if (STATE->bound) {
		const struct thread_cpus *own = place_of(tid, false);
		if (own)
			return own->cpus;
		if (of_this_process(tid) && count_of(&AFFINITY->usual))
			return AFFINITY->usual;
	}
	return all_cpus();
}

void inherit_cpus(const u64 *words)
{
	struct cpu_set all = all_cpus();
	bool any = false, less = false;
	for (u32 i = 0; i < DIORAMA_AFFINITY_WORDS; i++) {
		any |= words[i] & all.words[i];
		less |= (words[i] & all.words[i]) != all.words[i];
	}
	if (!any || !less)
		return;
	for (u32 i = 0; i < DIORAMA_AFFINITY_WORDS; i++)
		AFFINITY->usual.words[i] = words[i] & all.words[i];
	STATE->bound = true;
}

void bind_thread(const struct cpu_set *cpus)
{
	struct thread_cpus *own = place_of((i32)syscall(__NR_gettid), true);
	if (!own->by_another)
		own->cpus = *cpus;
}

static void trap_births(void)
{
	static const struct sock_filter code[] = {
		{ BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, arch) },
		{ BPF_JMP | BPF_JEQ | BPF_K, 1, 0, AUDIT_ARCH_X86_64 },
		{ BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW },
		{ BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr) },
		{ BPF_JMP | BPF_JEQ | BPF_K, 3, 0, __NR_clone },
		{ BPF_JMP | BPF_JEQ | BPF_K, 2, 0, __NR_fork },
		{ BPF_JMP | BPF_JEQ | BPF_K, 1, 0, __NR_vfork },
		{ BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW },
		TRAP_OUTSIDE,
	};
	add_filter(code, sizeof code / sizeof *code);
}

void hand_on_cpus(void)
{
	if (STATE->bound)
		AFFINITY->handed_on = cpus_of((i32)syscall(__NR_gettid));
}

/* Where a thread keeps what is its own: a number that no other thread of the process has. */
static u64 thread_pointer(void)
{
	u64 base = 0;
	if (STATE->has_fsgsbase)
		__asm__ volatile("rdfsbase %0" : "=r"(base));
	else
		syscall(__NR_arch_prctl, 0x1003 /* ARCH_GET_FS */, &base);
	return base;
}

u32 current_cpu(void)
{
	/* C libraries put it into the thread's stack, and these lie an odd number of pages apart. */
	u32 spread = (u32)(thread_pointer() >> 12);
	if (!STATE->bound)
		return spread % (u32)STATE->given.cpus;
	struct cpu_set set = cpus_of((i32)syscall(__NR_gettid));
	u32 nth = spread % count_of(&set);
	for (u32 i = 0;; i++)
		for (u64 rest = set.words[i]; rest; rest &= rest - 1)
			if (!nth--)
				return i * 64 + (u32)__builtin_ctzl(rest);
}

u32 last_cpu_of(i32 tid)
{
	if (tid == (i32)syscall(__NR_gettid))
		return current_cpu();
	struct cpu_set set = cpus_of(tid);
	u32 nth = (u32)tid % count_of(&set);
	for (u32 i = 0;; i++)
		for (u64 rest = set.words[i]; rest; rest &= rest - 1)
			if (!nth--)
				return i * 64 + (u32)__builtin_ctzl(rest);
}

static bool exists(i32 tid)
{
	/* The kernel looks for the thread before it finds that no process has such an address. */
	return !tid || syscall(__NR_sched_getaffinity, tid, 1 << 20, -4096) == -EFAULT;
}

/* sched_getaffinity(pid, size, set): how many bytes were written. */
long call_getaffinity(struct call *c)
{
	u64 cpus = STATE->given.cpus, size = (u32)c->a[1], whole = (cpus + 63) / 64 * 8;
	i32 tid = (i32)c->a[0];
	if (!cpus)
		return as_is(c);
	if (size * 8 < cpus || size % 8)
		return -EINVAL;
	if (!exists(tid))
		return -ESRCH;
	struct cpu_set set = cpus_of(tid ? tid : (i32)syscall(__NR_gettid));
	if (whole > size)
		whole = size;
	return write_user(c->a[2], &set, whole) ? (long)whole : -EFAULT;
}

/* sched_setaffinity(pid, size, set) */
long call_setaffinity(struct call *c)
{
	u64 size = (u32)c->a[1];
	i32 tid = (i32)c->a[0];
	if (!STATE->given.cpus)
		return as_is(c);
	struct cpu_set set = { 0 }, all = all_cpus();
	if (size > sizeof set)
		size = sizeof set;
	if (size && !read_user(&set, c->a[2], size))
		return -EFAULT;
	if (!exists(tid))
		return -ESRCH;
	bool less = false;
	for (u32 i = 0; i < DIORAMA_AFFINITY_WORDS; i++) {
		set.words[i] &= all.words[i];
		less |= set.words[i] != all.words[i];
	}
	if (!count_of(&set))
		return -EINVAL;
	if (!tid)
		tid = (i32)syscall(__NR_gettid);
	/* Of another process it is not kept. */
	if ((!less && !STATE->bound) || !of_this_process(tid))
		return 0;
	struct thread_cpus *place = place_of(tid, true);
	place->by_another = tid != (i32)syscall(__NR_gettid);
	place->cpus = set;
	bool first = !STATE->bound;
	STATE->bound = true;
	if (first)
		trap_births();
	return 0;
}

/* getcpu(cpu, node, unused) */
long call_getcpu(struct call *c)
{
	u32 cpu, node = 0;
	if (!STATE->given.cpus)
		return as_is(c);
	cpu = current_cpu();
	if ((c->a[0] && !write_user(c->a[0], &cpu, sizeof cpu)) || (c->a[1] && !write_user(c->a[1], &node, sizeof node)))
		return -EFAULT;
	return 0;
}
