/*
 * The seccomp filter: which calls pass, which trap, which ask the injector.
 *
 * The kernel runs a filter once per call number with unknown arguments when it is installed; a call that reaches ALLOW
 * by looking at architecture and number alone is cached as always allowed and never runs the filter again. So these
 * two are loaded first and alone, and nothing else is looked at for a call without a time.
 */
#include "exec.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/ioctl.h>
#include <linux/seccomp.h>

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif

#define ERRNO(e) (SECCOMP_RET_ERRNO | (e))
#define X32_BIT 0x40000000
#define LOW(arg) (offsetof(struct seccomp_data, args) + 8 * (arg))
#define HIGH(arg) (LOW(arg) + 4)
#define RCVTIMEO_NEW 66
#define SNDTIMEO_NEW 67

#define ROOM 1024
static struct sock_filter code[ROOM];
static u32 at_;

/* An instruction that has no room is counted only, and install_filter refuses. */
static void emit(u16 op, u32 k, u8 yes, u8 no)
{
	if (at_ < ROOM)
		code[at_] = (struct sock_filter){ op, yes, no, k };
	at_++;
}

static void load(u32 offset)
{
	emit(BPF_LD | BPF_W | BPF_ABS, offset, 0, 0);
}

static void answer(u32 what)
{
	emit(BPF_RET | BPF_K, what, 0, 0);
}

/* If the loaded word is (not) k, skip so many instructions. */
static void skip_if(u32 k, u8 count)
{
	emit(BPF_JMP | BPF_JEQ | BPF_K, k, count, 0);
}

static void skip_unless(u32 k, u8 count)
{
	emit(BPF_JMP | BPF_JEQ | BPF_K, k, 0, count);
}

/* Trap, unless the call comes from the image: jumps to where build() says so for all. */
static u32 traps[ROOM], trap_count;
static void trap(void)
{
	if (trap_count < ROOM)
		traps[trap_count++] = at_;
	emit(BPF_JMP | BPF_JA, 0, 0, 0);
}

/*
 * Allow the call if the image makes it, or tells a tracer of it; give no verdict if it only asks for one
 * (settings/sandbox.c). Else trap.
 */
static void trap_or_allow(u32 allowed)
{
	load(offsetof(struct seccomp_data, instruction_pointer) + 4);
	skip_unless(DIORAMA_ADDRESS_HIGH, 8);
	load(offsetof(struct seccomp_data, instruction_pointer));
	skip_unless((u32)(DIORAMA_IMAGE + DIORAMA_TELL), 1);
	answer(SECCOMP_RET_ALLOW);
	skip_if((u32)(DIORAMA_IMAGE + DIORAMA_JUDGE), 3);
	skip_if((u32)(DIORAMA_IMAGE + DIORAMA_JUDGE_AGAIN), 2);
	skip_if((u32)(DIORAMA_IMAGE + DIORAMA_CARRY_OUT), 1);
	answer(allowed);
	answer(ERRNO(DIORAMA_NOT_JUDGED));
	answer(SECCOMP_RET_TRAP | DIORAMA_TRAP_DATA);
}

/* "For call `nr`, do what follows": patched by done() to jump over it. */
static u32 on(u32 nr)
{
	u32 here = at_;
	emit(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 0);
	return here;
}

static void done(u32 here)
{
	if (here < ROOM)
		code[here].jf = (u8)(at_ - here - 1);
}

static void simply(u32 nr, u32 what)
{
	u32 here = on(nr);
	answer(what);
	done(here);
}

static void always(u32 nr)
{
	u32 here = on(nr);
	trap();
	done(here);
}

/* Trap if one of two pointer arguments is there (a, b: 0 to 5; b may equal a). */
static void if_given(u32 nr, u8 a, u8 b)
{
	u32 here = on(nr);
	for (int i = 0; i < (a == b ? 1 : 2); i++) {
		u8 arg = i ? b : a, later = a == b || i ? 0 : 4;
		load(LOW(arg));
		emit(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, (u8)(3 + later)); /* not 0: to the trap */
		load(HIGH(arg));
		emit(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, (u8)(1 + later));
	}
	answer(SECCOMP_RET_ALLOW);
	trap();
	done(here);
}

/* Whether calls that look and do not wait trap: where a node may be ahead of the run's clock (poll.c). */
static bool looks_trap;

/*
 * Milliseconds in argument `ms`: a negative number has no end, 0 does not wait. With a mask (not 0), trap for it. Go's
 * runtime gives no size of a mask, looks before it goes to sleep and at no other time, and has no sites that stop
 * trapping: its looks pass.
 */
static void milliseconds(u32 nr, u8 ms, u8 mask)
{
	u32 here = on(nr);
	if (mask) {
		load(LOW(mask));
		skip_unless(0, 8);
		load(HIGH(mask));
		skip_unless(0, 6);
	}
	load(LOW(ms));
	emit(BPF_JMP | BPF_JSET | BPF_K, 0x80000000, mask ? 3 : 2, 0);
	if (mask) {
		skip_unless(0, 3);
		load(LOW(mask + 1));
		skip_unless(0, looks_trap ? 1 : 0);
	} else {
		skip_unless(0, 2);
		emit(BPF_JMP | BPF_JA, looks_trap ? 1 : 0, 0, 0);
	}
	answer(SECCOMP_RET_ALLOW);
	trap();
	done(here);
}

/* Trap if the low word of argument `arg` is one of the list. */
static void if_one_of(u8 arg, const u32 *list, u8 n)
{
	load(LOW(arg));
	for (u8 i = 0; i < n; i++)
		skip_if(list[i], (u8)(n - i));
	answer(SECCOMP_RET_ALLOW);
	trap();
}

static void never(u32 nr)
{
	(void)nr;
}

static void futex(u32 nr)
{
	/* WAIT, LOCK_PI, WAIT_BITSET, WAIT_REQUEUE_PI, LOCK_PI2, if they have a time-out. */
	static const u32 waits[] = { 0, 9, 6, 13, 11 };
	const u8 n = sizeof waits / sizeof *waits;
	u32 here = on(nr);
	load(LOW(1));
	emit(BPF_ALU | BPF_AND | BPF_K, 0x7f, 0, 0);
	for (u8 i = 0; i < n; i++)
		skip_if(waits[i], (u8)(n - i));
	answer(SECCOMP_RET_ALLOW);
	load(LOW(3));
	skip_unless(0, 3);
	load(HIGH(3));
	skip_unless(0, 1);
	answer(SECCOMP_RET_ALLOW);
	trap();
	done(here);
}

/* Trap an open of what is not said to be a directory: it may be a file of /proc. */
static void opening(u32 nr, u8 flags)
{
	u32 here = on(nr);
	load(LOW(flags));
	emit(BPF_JMP | BPF_JSET | BPF_K, 0x10000 /* O_DIRECTORY */ | 0x200000 /* O_PATH */, 0, 1);
	answer(SECCOMP_RET_ALLOW);
	trap();
	done(here);
}

/*
 * The injector is asked about an exec, but only by the image (exec.c says why), which says that it is the image. The
 * address would say so too, but dilate-exec, which has no image yet, must be able to say it.
 */
static void executing(u32 nr)
{
	u32 here = on(nr);
	load(LOW(5));
	skip_if(DIORAMA_EXECUTE, 1);
	skip_unless(DIORAMA_EXECUTE_SANDBOXED, 1);
	answer(SECCOMP_RET_USER_NOTIF);
	trap_or_allow(SECCOMP_RET_TRAP | DIORAMA_TRAP_DATA);
	done(here);
}

/* rt_sigprocmask that may block a signal. */
static void changes_mask(u32 nr)
{
	u32 here = on(nr);
	load(LOW(0));
	skip_if(1 /* SIG_UNBLOCK */, 4);
	load(LOW(1));
	skip_unless(0, 3); /* a set: trap */
	load(HIGH(1));
	skip_unless(0, 1);
	answer(SECCOMP_RET_ALLOW);
	trap();
	done(here);
}

/* rt_sigaction that sets one, or asks for one of those that are ours. */
static void changes_action(u32 nr)
{
	u32 here = on(nr);
	load(LOW(0));
	skip_if(SIGSYS, 6);
	skip_if(SIGSEGV, 5);
	load(LOW(1));
	skip_unless(0, 3);
	load(HIGH(1));
	skip_unless(0, 1);
	answer(SECCOMP_RET_ALLOW);
	trap();
	done(here);
}

static void socket_options(u32 nr)
{
	static const u32 of_socket[] = { 13 /* LINGER */, 20 /* RCVTIMEO */, 21 /* SNDTIMEO */, RCVTIMEO_NEW, SNDTIMEO_NEW,
					 47 /* MAX_PACING_RATE */,
					 61 /* TXTIME */,
					 /* TIMESTAMP, -NS, -ING, and their new selves: of interest when set */
					 29, 35, 37, 63, 64, 65 };
	static const u32 of_tcp[] = { 4 /* KEEPIDLE */, 5 /* KEEPINTVL */, 8 /* LINGER2 */, 18 /* USER_TIMEOUT */,
				      11 /* INFO, which can only be asked for */ };
	static const u32 of_tables[] = { 64 /* IPT_SO_SET_REPLACE */, 65 /* IPT_SO_GET_ENTRIES */ };
	bool get = nr == __NR_getsockopt;
	u32 here = on(nr);
	load(LOW(1));
	u32 not_socket = at_;
	skip_unless(1 /* SOL_SOCKET */, 0);
	if_one_of(2, of_socket, get ? 6 : 13);
	done(not_socket);
	for (u8 i = 0; i < 2; i++) {
		u32 other = at_;
		skip_unless(i ? 41 /* SOL_IPV6 */ : 0 /* SOL_IP */, 0);
		if_one_of(2, of_tables + get, 1);
		done(other);
	}
	skip_if(6 /* SOL_TCP */, 1);
	answer(SECCOMP_RET_ALLOW);
	if_one_of(2, of_tcp, get ? 5 : 4);
	done(here);
}

/* Times of System V IPC: the commands of the IPC_STAT kind, in argument `command`. */
static void ipc_stat(u32 nr, u8 command)
{
	static const u32 shm[] = { 2, 13, 15 }, msg[] = { 2, 11, 13 }, sem[] = { 2, 18, 20 };
	u32 here = on(nr);
	if_one_of(command, nr == __NR_shmctl ? shm : nr == __NR_msgctl ? msg : sem, 3);
	done(here);
}

/* The limit of CPU time, where argument `resource` names the limit. */
static void of_cpu(u32 nr, u8 resource)
{
	static const u32 cpu[] = { 0 /* RLIMIT_CPU */ };
	u32 here = on(nr);
	if_one_of(resource, cpu, 1);
	done(here);
}

/* Stamps of packets, and what a supervisor asks of its listener. */
static void packet_stamps(u32 nr)
{
	static const u32 commands[] = { 0x8906 /* SIOCGSTAMP */, 0x8907 /* SIOCGSTAMPNS */, 0x80108906, 0x80108907,
					SECCOMP_IOCTL_NOTIF_RECV, SECCOMP_IOCTL_NOTIF_SEND, SECCOMP_IOCTL_NOTIF_ID_VALID,
					SECCOMP_IOR(2, u64) /* the same, as it was at first */, SECCOMP_IOCTL_NOTIF_ADDFD,
					0x40082104 /* SET_FLAGS */ };
	u32 here = on(nr);
	if_one_of(1, commands, sizeof commands / sizeof *commands);
	done(here);
}

/* openat2, but for bootstrap.S's of the memfd. */
static void not_bootstrap(u32 nr)
{
	u32 here = on(nr);
	load(LOW(3));
	skip_unless(DIORAMA_OPEN_HOW, 1);
	answer(SECCOMP_RET_ALLOW);
	trap();
	done(here);
}

/* Trap socket(AF_NETLINK, …). */
static void of_netlink(u32 nr)
{
	static const u32 netlink[] = { 16 };
	u32 here = on(nr);
	if_one_of(0, netlink, 1);
	done(here);
}

/* prctl and seccomp where they set a filter, or the strict mode, or ask for the auxiliary vector (auxv.c). */
static void filtering(u32 nr)
{
	static const u32 by_prctl[] = { 22 /* PR_SET_SECCOMP */, PR_GET_AUXV };
	static const u32 by_seccomp[] = { SECCOMP_SET_MODE_STRICT, SECCOMP_SET_MODE_FILTER };
	u32 here = on(nr);
	if (nr == __NR_prctl) {
		/* It would send the image's own calls to the program: as on a kernel that does not have it. */
		load(LOW(0));
		skip_unless(59 /* PR_SET_SYSCALL_USER_DISPATCH */, 3);
		load(LOW(1));
		skip_if(0 /* off */, 1);
		answer(ERRNO(EINVAL));
		if_one_of(0, by_prctl, 2);
	} else {
		if_one_of(0, by_seccomp, 2);
	}
	done(here);
}

/*
 * Who lets itself be traced stops at every trap, and could not execute. A debugger that starts a program does so with
 * vfork, and would wait for it for ever: it is told before that. Who attaches traps.
 */
static void attaching(u32 nr)
{
	static const u32 attaches[] = { 16 /* PTRACE_ATTACH */, 0x4206 /* PTRACE_SEIZE */ };
	u32 here = on(nr);
	load(LOW(0));
	skip_unless(0 /* PTRACE_TRACEME */, 1);
	answer(SECCOMP_RET_USER_NOTIF);
	if_one_of(0, attaches, 2);
	done(here);
}

/* Ask the injector about a call that may take the image away, unless the image makes it. */
static void ask_unless_ours(void)
{
	load(offsetof(struct seccomp_data, instruction_pointer) + 4);
	skip_unless(DIORAMA_ADDRESS_HIGH, 1);
	answer(SECCOMP_RET_ALLOW);
	answer(SECCOMP_RET_USER_NOTIF);
}

/*
 * Calls that may take the image away. munmap from within it traps. mmap by MAP_FIXED, and munmap from below it on, are
 * the injector's business (src/keep.rs), which looks closely: a handler may lose its stack by it. The addresses are
 * compared by their upper halves.
 */
static void of_image(u32 nr)
{
	const bool maps = nr == __NR_mmap;
	u32 here = on(nr), below;
	if (maps) {
		load(LOW(3));
		emit(BPF_JMP | BPF_JSET | BPF_K, 0x10 /* MAP_FIXED */, 1, 0);
		answer(SECCOMP_RET_ALLOW);
	}
	load(HIGH(0));
	below = at_;
	skip_unless(DIORAMA_ADDRESS_HIGH, 0);
	if (maps)
		ask_unless_ours();
	else
		trap();
	done(below);
	emit(BPF_JMP | BPF_JGT | BPF_K, DIORAMA_ADDRESS_HIGH, 4, 0);
	emit(BPF_MISC | BPF_TAX, 0, 0, 0);
	load(HIGH(1));
	emit(BPF_ALU | BPF_ADD | BPF_X, 0, 0, 0);
	emit(BPF_JMP | BPF_JGE | BPF_K, DIORAMA_ADDRESS_HIGH - 1, 1, 0);
	answer(SECCOMP_RET_ALLOW);
	ask_unless_ours();
	done(here);
}

/* mremap to there. */
static void to_image(u32 nr)
{
	u32 here = on(nr);
	load(LOW(3));
	emit(BPF_JMP | BPF_JSET | BPF_K, 2 /* MREMAP_FIXED */, 0, 2);
	load(HIGH(4));
	skip_if(DIORAMA_ADDRESS_HIGH, 1);
	answer(SECCOMP_RET_ALLOW);
	ask_unless_ours();
	done(here);
}

static void not_monotonic(u32 nr)
{
	u32 here = on(nr);
	load(LOW(0));
	skip_unless(CLOCK_MONOTONIC, 1);
	answer(SECCOMP_RET_ALLOW);
	trap();
	done(here);
}

static void build(void)
{
	load(offsetof(struct seccomp_data, arch));
	skip_if(AUDIT_ARCH_X86_64, 1);
	answer(ERRNO(ENOSYS));
	load(offsetof(struct seccomp_data, nr));
	emit(BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 0, 1);
	answer(ERRNO(ENOSYS));

#define CALL(number, handler, rule, ...) rule(number, ##__VA_ARGS__);
#include "../calls.h"
#undef CALL
	simply(DIORAMA_CALL_MEMFD, SECCOMP_RET_USER_NOTIF);
	simply(DIORAMA_CALL_NOTE, SECCOMP_RET_USER_NOTIF);
	simply(DIORAMA_CALL_LISTENER, SECCOMP_RET_USER_NOTIF);
	/* The offsets of a time namespace would be taken for virtual time: as on a kernel that has none. */
	u32 unshare = on(__NR_unshare);
	load(LOW(0));
	emit(BPF_JMP | BPF_JSET | BPF_K, 0x80 /* CLONE_NEWTIME */, 0, 1);
	answer(ERRNO(EINVAL));
	answer(SECCOMP_RET_ALLOW);
	done(unshare);
	of_image(__NR_mmap);
	to_image(__NR_mremap);
	/* dilation.h says why. */
	simply(__NR_io_uring_setup, ERRNO(ENOSYS));
	simply(__NR_io_uring_enter, ERRNO(ENOSYS));
	simply(__NR_io_uring_register, ERRNO(ENOSYS));
	answer(SECCOMP_RET_ALLOW);
	for (u32 i = 0; i < trap_count && at_ < ROOM; i++)
		code[traps[i]].k = at_ - traps[i] - 1;
	trap_or_allow(SECCOMP_RET_ALLOW);
}

long install_filter(bool looks)
{
	looks_trap = looks;
	build();
	if (at_ > ROOM)
		return -E2BIG;
	struct sock_fprog program = { (u16)at_, code };
	return syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER,
		       SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV |
			       SECCOMP_FILTER_FLAG_SPEC_ALLOW,
		       &program);
}
