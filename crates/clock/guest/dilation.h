/*
 * The guest image: what a dilated process carries, and why it works.
 *
 * A dilated process is an ordinary process. Nobody traces it and nobody answers its system calls.
 * It differs from its undilated self in five ways, all inherited by fork and clone:
 *
 *  1. A seccomp filter (filter.c), installed once by dilate-exec under no_new_privs. It lets nearly
 *     every system call pass; the kernel caches these as constant-allow, so they cost nothing. Calls
 *     that carry a clock or a time-out give SIGSYS, *unless* the instruction pointer lies in the image;
 *     some are let through when a register shows that no time is involved (poll without end, futex wake).
 *     execve traps too, and goes from the image to the injector, a thread outside (exec.c).
 *
 *  2. This image, mapped at DIORAMA_IMAGE by the injector at every successful execve, before the
 *     program's first instruction. The injector attaches with ptrace only for the length of the exec: when the kernel
 *     has loaded the program, it writes `struct parameters` onto the stack and a bootstrap (bootstrap.S) over the
 *     unused end of the process's private copy of the vDSO, the one piece of executable memory that is alike in every
 *     program, points the instruction pointer there and detaches. The bootstrap gets a memfd from the injector, maps
 *     the image from it and goes on to `dilation_init`.
 *
 *  3. Its vDSO is ours (vdso.c): AT_SYSINFO_EHDR is replaced wherever the program finds it (auxv.c). Our functions
 *     call the kernel's vDSO and scale what it says. So a clock costs a few ns more and no trap.
 *
 *  4. A SIGSYS handler (trap.c), which does the trapped calls in the thread that made them: it turns virtual
 *     deadlines into real ones, issues the call from inside the image (where the filter lets it pass), and turns
 *     what comes back into virtual time.
 *
 *  5. Instructions that have trapped again and again are jumps to the image (sites.c), which answers them as the
 *     handler would, without a signal.
 *
 * A process that asks for timestamps of packets has one more filter (packets.c), and one whose time-stamp counter is to
 * be dilated a SIGSEGV handler (tsc.c).
 *
 * What is frightening, and how it is kept safe:
 *
 *  - The kernel kills a process that gets a *blocked* SIGSYS from seccomp. So SIGSYS is removed from every mask that
 *    a program sets (signals.c), and sigaction(SIGSYS) is kept by us and never reaches the kernel.
 *  - clone3 can clear handlers (CLONE_CLEAR_SIGHAND), ours too: the image makes the call and clears the others itself
 *    (clone.c).
 *  - io_uring makes calls that no filter sees: it gives ENOSYS, and every known user falls back to older calls.
 *  - The handler runs wherever the program was: on an alternate stack if there is one (Go's goroutine stacks are
 *    smaller than a frame), with no signal blocked (SA_NODEFER, empty mask), so that the program's own handlers run
 *    on top of it just as they would interrupt the call. They may longjmp away: nothing here holds a lock or counts
 *    depth.
 *  - The program's pointers may be bad. Dereferencing one here would be a SIGSEGV where Linux gives EFAULT, so
 *    every pointer is probed by a harmless system call first (user.c).
 *  - The kernel's own vDSO falls back to system calls, which trap like any other: such a trap passes unscaled.
 *  - No thread-local storage, no writable globals, no FP or SSE registers, no libc. State lies at fixed addresses.
 *
 * Rounding: a virtual reading is rounded down, a real time-out up. With v(r) = floor(r*rate) this means that a
 * sleep of d virtual ns never ends before d virtual ns have passed on any clock.
 */
#ifndef DIORAMA_DILATION_H
#define DIORAMA_DILATION_H

#include "freestanding.h"
#include "layout.h"

/*
 * The clock page, one for all nodes, written by the engine only (src/page.rs). Times in ns.
 * virtual MONOTONIC = virtual_base + (real MONOTONIC - real_base) * rate, rate = rate_whole + rate_frac / 2^64.
 * `sequence` is odd while the engine writes: read it before and after (clock.c).
 */
struct clock_page {
	u32 sequence;
	u32 kernel_vdso_is_slow; /* this host's vDSO clock makes system calls: make them ourselves instead */
	u64 real_base;
	u64 virtual_base;
	u64 rate_whole;
	u64 rate_frac;
	u64 tdf_num; /* the same rate as an exact rational, for the way back */
	u64 tdf_den;
	i64 realtime_offset; /* virtual REALTIME - virtual MONOTONIC; fixed, so steps of the host's clock do not leak */
	i64 tai_offset;      /* virtual TAI - virtual REALTIME */
	i64 host_offset;     /* the host's REALTIME - its MONOTONIC: the dates that its kernel gives files */
	u64 second_rate;     /* rate / 10^9 * 2^64: virtual seconds per real ns, rounded down */
	u64 second;          /* virtual_base in whole seconds, */
	u64 date_second;     /* and the date then */
	/*
	 * When the rate changed, and what virtual MONOTONIC was then; the last is the base above. Before the first,
	 * virtual time was real time. Only the times of files ask for what is past.
	 */
	u64 changes;
	struct change {
		u64 real, virt;
	} change[DIORAMA_CHANGES];
};

/* A program's request to sigaction; the kernel's layout. */
struct kernel_sigaction {
	u64 handler, flags, restorer, mask;
};

/*
 * What the kernel does not tell of a POSIX timer: its clock, which timer_settime needs; and on a CPU clock that is
 * slower than the host's, where several virtual ns are one real one, what it was set to.
 */
struct timer_memory {
	i32 id_plus_1;
	i32 clock;
	u64 value, interval; /* ns, of CPU clocks only */
};

#define ACTION_SLOTS 4
#define TIMERS_KNOWN 170
#define TRACED 32

/* Written by the injector (src/tracee.rs has the same struct). */
struct parameters {
	u64 real_vdso; /* the kernel's vDSO: base and length */
	u64 real_vdso_len;
	u64 vdso_clock_gettime; /* its entry points, 0 if it lacks one */
	u64 vdso_getcpu;
	u64 vdso_getrandom;
	u64 entry;               /* where the program starts */
	u64 cpu_whole, cpu_frac; /* virtual CPU time = real * (whole + frac / 2^64) */
	u64 cpu_num, cpu_den; /* and back, real = virtual * num / den */
	u64 tsc_cycles; /* per virtual ns, times 2^32; 0: rdtsc is left alone */
	u64 one_core; /* whether all threads of the process share one */
	u64 cpus; /* how many CPUs it sees, numbered from 0; 0: those of the host */
	u64 affinity[DIORAMA_AFFINITY_WORDS]; /* which of them it may use; none: all */
	u64 node_clock; /* the descriptor of the node's clock, plus one; written when the memfd is given. 0: it has none */
};

/* Private to the process, copied by fork. */
struct state {
	struct parameters given;
	u64 fast_clock_gettime; /* the kernel's vDSO's, where that is worth it; else 0 */
	u64 node_clock; /* where the node's clock is mapped; 0 in a program that lives by the run's */
	u64 looked; /* clock.c: what the node's clock showed when a thread last looked, and found nothing; real */
	struct {
		i32 pid; /* 0: what was inherited */
		u32 set;
		struct kernel_sigaction sigsys, sigsegv;
	} actions[ACTION_SLOTS]; /* signals.c */
	u32 actions_next;
	u32 traps_receiving; /* packets.c: its filter is in place */
	u32 traps_from, traps_output; /* settings/calls.c: its filters are, and from which descriptor on */
	u32 bound; /* cpus.c: a thread may not use all CPUs */
	u32 has_fsgsbase; /* a thread can read where its own memory is */
	u32 has_libc; /* a C library of its own file, or some other one: the program has an interpreter */
	u64 itimer_interval[3]; /* timers.c: as set last, us */
	/* sites.c: how many are in the table, whether none is changed any more, and where the stubs are mapped again. */
	u32 sites, sites_lock, sites_closed;
	/* settings/sandbox.c: there are filters of the program's own; their verdicts on trapped calls must be asked for. */
	u32 sandboxed, judged;
	u32 traces; /* settings/tracer.c: its filter is in place; how it let go what it traces, found by part of the number */
	struct {
		i32 tid;
		u32 request;
	} traced[TRACED];
	/* machine.c: the program runs another on a machine of its own; its handlers. */
	u32 machine;
	u64 handlers[64];
	u64 stubs[DIORAMA_STUB_COPIES];
};

/* An instruction that has made calls which trapped; kept by sites.c, and read by its assembly. */
struct site {
	u64 after; /* where the call returns to */
	u32 nr;
	u32 seen; /* how often, or what came of it */
};

#define PAGE ((const volatile struct clock_page *)DIORAMA_PAGE)
#define STATE ((struct state *)DIORAMA_STATE)
#define SITES ((struct site *)DIORAMA_SITE_TABLE)
/* The second page of the state: untouched, and so free, until a program creates a timer. */
#define TIMERS ((struct timer_memory *)(DIORAMA_STATE + 0x1000))

/* clock.c */
#define FOREVER 0x7fffffffffffffffull /* the kernel's KTIME_MAX */
struct deadline {
	i64 virt;     /* virtual MONOTONIC; dates from before the boot are negative */
	u64 interval; /* of a periodic timer, of which this is the first tick; else 0 */
	u64 real;     /* real MONOTONIC at which it is reached, rounded up; never 0 */
	u32 sequence; /* of the page that said so */
};
u64 real_now(void); /* the host's, by which the kernel waits */
u64 virtual_now(void);
u64 to_ns(const struct timespec *t);
struct timespec from_ns(u64 ns);
bool valid(const struct timespec *t);
u64 real_span(u64 virtual_ns);
u64 virtual_span(u64 real_ns);
u64 cpu_virtual(u64 real_ns);
u64 cpu_real(u64 virtual_ns);
/*
 * Virtual MONOTONIC when the host's was `real`, which may lie before the last change of the rate, or before virtual
 * zero.
 */
i64 past_virtual(i64 real);
/* The virtual REALTIME of an instant of the host's REALTIME, rounded down, and back, rounded up. */
i64 date_virtual(i64 date);
i64 date_real(i64 date);
struct timespec shown(struct timespec date); /* date_virtual, for any date */
/* Whether `clock` is one of the wall clocks, and its fixed distance from virtual MONOTONIC. */
bool wall_clock(i32 clock, i64 *offset);
/* ceil(a * num / den), at most FOREVER. */
u64 scale_up(u64 a, u64 num, u64 den);
bool cpu_clock(i32 clock);
/* The kernel's error for a CLOCK_…_ALARM on a machine that has no clock to be woken by; 0 of any other. */
long alarm_clock_missing(i32 clock);
struct deadline after(u64 virtual_ns);
struct deadline at(u64 virtual_ns, i64 offset);
/*
 * Where a periodic timer begins: the phase of its ticks depends on it, long past though it may be. The interval is
 * virtual.
 */
struct deadline first_tick(u64 virtual_ns, i64 offset, u64 interval);
/* The rest of the way to a deadline in real time, for calls that take a relative time-out. */
struct timespec real_rest(const struct deadline *d);
u64 virtual_rest(const struct deadline *d);
/*
 * Whether the rate has changed since the deadline was turned into real time. Who has set a kernel's timer by it then
 * sets it anew, to what is left now (never 0, which would disarm it): the injector moved the timers that it found set.
 */
bool changed_since(const struct deadline *d);
struct timespec renewed(struct deadline *d);
/* How long the kernel has to wait for a deadline that is `virtual_ns` from now, in real time; never 0. */
u64 real_way(const struct deadline *d, u64 virtual_ns);
/* How much virtual time is left of a timer of which the kernel has so much left: never 0 unless that is. */
u64 virtual_left(u64 real_ns);
/*
 * A wait ended by its time-out. If the rate was changed meanwhile, the deadline may be further off: compute it anew. If
 * the node's clock is behind the run's, it is raised to the deadline.
 */
bool not_yet(struct deadline *d);
/*
 * A call that was not to wait has found nothing: how far the node's clock is ahead of the run's, in real ns, if that is
 * worth waiting for; else 0. What will have come by the node's own time has come when the run's clock is there.
 */
u64 lead_of_look(void);

/* user.c */
bool is_readable(u64 from, u64 len);
bool read_user(void *to, u64 from, u64 len);
bool write_user(u64 to, const void *from, u64 len);
/* A string of less than `room` bytes, its end included; false if it is longer or not there. */
bool read_text(char *to, u64 from, u64 room);

/*
 * A call that has trapped: its number, its arguments, and the frame of the signal; none if it came without one, from a
 * site (sites.c). calls.h lists the functions that answer one.
 */
struct call {
	u64 nr, a[6];
	struct ucontext *context;
};
/* Assembly: has a call's number and arguments in the registers, of the struct call that rdi points to. */
#define LOAD_CALL                     \
	"	mov (%rdi), %rax\n"   \
	"	mov 16(%rdi), %rsi\n" \
	"	mov 24(%rdi), %rdx\n" \
	"	mov 32(%rdi), %r10\n" \
	"	mov 40(%rdi), %r8\n"  \
	"	mov 48(%rdi), %r9\n"  \
	"	mov 8(%rdi), %rdi\n"
_Static_assert(offsetof(struct call, a) == 8, "LOAD_CALL says where");
/* The call as it stands: for one that the kernel will find wrong, and say in what. */
static inline long as_is(const struct call *c)
{
	return syscall(c->nr, c->a[0], c->a[1], c->a[2], c->a[3], c->a[4], c->a[5]);
}
#define CALL(number, handler, ...) long handler(struct call *c);
#include "calls.h"
#undef CALL
/* auxv.c: an auxiliary vector of so many bytes, or up to its end, becomes what a program is shown of it. */
#define AT_NULL 0
#define PR_GET_AUXV 0x41555856
void show_vector(u64 *vector, u64 bytes);
/* packets.c */
long call_timestamp_option(struct call *c);
void show_messages(u64 messages, long n);
/* sockets.c: a struct tcp_info of so many bytes, which the kernel has just written. */
void show_tcp_info(u64 info, i32 len);
/* settings/legacy.c: setsockopt and getsockopt of a table of iptables. */
long call_table_option(struct call *c);
/* settings/messages.c: the program says when packets are to be sent, which the kernel takes for real instants. */
void note_txtime(void);
/*
 * settings/calls.c: one more filter for all threads, if they have the same ones so far, and else for this one; whether
 * all have it.
 */
struct sock_filter;
bool add_filter(const struct sock_filter *code, u64 count);
/* And whether reading from a descriptor may have trapped for what is read. */
bool is_trapped(u64 fd);
/*
 * settings/sysctl.c: whether a path may be of a setting; and what stands for its descriptor, if it is one, that was
 * opened for reading, or for writing.
 */
bool may_be_setting(const char *path);
long shown_setting(long fd, bool cloexec);
long settable_setting(long fd);
/* The signals that come to the image, and that a program may not block: SIGSYS, and SIGSEGV where rdtsc is dilated. */
u64 our_signals(void);
/* Resets the program's own action for one of them to the default, unless it is to be ignored. */
void clear_own_action(i32 sig);
/* One of them that is not meant for us. */
void foreign_signal(i32 sig, struct siginfo *info, struct ucontext *context);
/* Reads a signal mask of the program and strips our signals from it. 0, -EFAULT or -EINVAL. */
long read_mask(u64 *mask, u64 from, u64 size);
/* sites.c: a call came by a signal. Where many do, the next may come without. */
void count_trap(const struct call *c);
/* sites.c: no instruction of the program is changed any more. */
void restore_sites(void);
/* strict.c: SECCOMP_MODE_STRICT is asked for; a thread did what it forbids. */
long be_strict(const struct call *c);
void end_strictly(void);
/*
 * settings/sandbox.c: whether a filter that was there before this program ran is the program's own; and whether such a
 * filter answers a trapped call with an error, which is the call's result then.
 */
void find_filters(void);
bool refused(struct call *c, long *result);
/*
 * The call as it was made, from DIORAMA_JUDGE and its neighbours (layout.h): for verdicts, or to be carried out if it
 * is none that traps.
 */
enum from { JUDGE, JUDGE_AGAIN, CARRY_OUT };
long make_from(const struct call *c, enum from from);
/*
 * settings/listener.c: the descriptor of a listener that the program makes, and by which data its filter is to trap; a
 * call that has trapped by these; what a supervisor asks of its listener.
 */
long make_listener(u64 flags, u32 *data);
long call_supervised(struct call *c, u32 data);
long call_listener(struct call *c);
long ask_injector(u64 what, u64 about);
/*
 * settings/tracer.c: a call about which a tracer is to be asked; false if it goes on, as that has left it. And in a
 * tracer wait4 and waitid, which fill a struct rusage, if one is given.
 */
bool answered_by_tracer(struct call *c, long *result);
long wait_as_tracer(struct call *c, void *usage);
/* machine.c: a call that is being answered, found by a handler that interrupts that. */
struct answered {
	u64 mark, self;
	const struct call *call;
	bool interrupted, ends;
};
void begin_answer(struct answered *it, const struct call *call);
void end_answer(struct answered *it);
void on_any_signal(int sig, struct siginfo *info, struct ucontext *context);
/* The handler to be installed for a signal that is none of ours. */
u64 wrapped(i32 sig, u64 handler);
/* Whether the program is one of those, by the path by which it was executed. */
void find_machine(const char *path);
/* trap.c: what is answered in the image. */
long dispatch(struct call *c);
void on_sigsys(int sig, struct siginfo *info, struct ucontext *context);
void restorer(void);
/* tsc.c */
void on_sigsegv(int sig, struct siginfo *info, struct ucontext *context);

#endif
