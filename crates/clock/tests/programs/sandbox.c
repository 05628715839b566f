/*
 * Filters that a program installs itself: what each verdict does to each of some calls, those that are trapped for
 * dilation among them. The output must be the same natively and dilated.
 *
 *	sandbox			all of it
 *	sandbox CALL		makes one call and tells what came of it (it is executed under a filter)
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FIELD(name) offsetof(struct seccomp_data, name)

static struct timespec t = { 0, 1000 };

static long asks(void) { return syscall(SYS_getppid) > 0 ? 0 : -1; }
static long naps(void) { return clock_nanosleep(CLOCK_MONOTONIC, 0, &t, 0); }
static long naps_raw(void) { return syscall(SYS_nanosleep, &t, 0); }
static struct timespec now;
static long reads_a_clock(void) { return syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now); }
static long reads_a_cpu_clock(void) { return syscall(SYS_clock_gettime, CLOCK_PROCESS_CPUTIME_ID, &now); }
static long blocks(void) { return syscall(SYS_rt_sigprocmask, SIG_BLOCK, &(long){ 1 << (SIGUSR1 - 1) }, 0, 8); }
static long handles(void) { return sigaction(SIGUSR1, &(struct sigaction){ .sa_handler = SIG_IGN }, 0); }
static long opens(void) { return open("/", O_RDONLY) >= 0 ? 0 : -1; }
static long looks(void) { return stat("/", &(struct stat){ 0 }); }
static long polls(void) { return poll(0, 0, 1); }
static long sets_an_alarm(void) { return syscall(SYS_alarm, 0); }
static long executes(void) { return execl("/bin/true", "true", (char *)0); }
static long filters(void) { return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, 0); }

static const struct call {
	const char *name;
	long (*makes)(void);
	int nr;
} calls[] = {
	{ "getppid", asks, SYS_getppid },
	{ "clock_nanosleep", naps, SYS_clock_nanosleep },
	{ "nanosleep", naps_raw, SYS_nanosleep },
	{ "clock_gettime", reads_a_clock, SYS_clock_gettime },
	{ "clock_gettime of a CPU clock", reads_a_cpu_clock, SYS_clock_gettime },
	{ "rt_sigprocmask", blocks, SYS_rt_sigprocmask },
	{ "rt_sigaction", handles, SYS_rt_sigaction },
	{ "openat", opens, SYS_openat },
	{ "newfstatat", looks, SYS_newfstatat },
	{ "poll", polls, SYS_poll },
	{ "alarm", sets_an_alarm, SYS_alarm },
	{ "execve", executes, SYS_execve },
	{ "seccomp", filters, SYS_seccomp },
};
#define CALLS (sizeof calls / sizeof *calls)

static const struct {
	const char *name;
	unsigned verdict;
} verdicts[] = {
	{ "ALLOW", SECCOMP_RET_ALLOW },
	{ "LOG", SECCOMP_RET_LOG },
	{ "TRACE", SECCOMP_RET_TRACE },
	{ "USER_NOTIF", SECCOMP_RET_USER_NOTIF },
	{ "ERRNO 0", SECCOMP_RET_ERRNO },
	{ "ERRNO 42", SECCOMP_RET_ERRNO | 42 },
	{ "ERRNO 5000", SECCOMP_RET_ERRNO | 5000 },
	{ "TRAP 7", SECCOMP_RET_TRAP | 7 },
	{ "KILL_THREAD", SECCOMP_RET_KILL_THREAD },
	{ "KILL_PROCESS", SECCOMP_RET_KILL_PROCESS },
	{ "unknown", 0x12340000 },
};
#define VERDICTS (sizeof verdicts / sizeof *verdicts)

static void fail(const char *what)
{
	perror(what);
	exit(99);
}

static void say(const char *format, ...)
{
	char line[200];
	va_list list;
	va_start(list, format);
	int n = vsnprintf(line, sizeof line, format, list);
	va_end(list);
	if (write(1, line, n) != n)
		_exit(98);
}

static long install(unsigned flags, struct sock_filter *code, unsigned n)
{
	struct sock_fprog program = { n, code };
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		fail("no_new_privs");
	if (flags == ~0u)
		return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}

/* `verdict` on one call, all others pass. By prctl, if flags are ~0. */
static void forbid(int nr, unsigned verdict, unsigned flags)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, FIELD(nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, verdict),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	if (install(flags, code, sizeof code / sizeof *code))
		fail("the filter");
}

/* These calls pass, and `verdict` is on all others: not even a handler may return. */
static void allow_only(int nr, unsigned verdict)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, FIELD(nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 4, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 3, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, verdict),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	if (install(0, code, sizeof code / sizeof *code))
		fail("the filter");
}

static void on_sigsys(int sig, siginfo_t *info, void *context)
{
	(void)context;
	say("signal %d of call %d, %d, %d; ", sig, info->si_syscall, info->si_errno, info->si_code);
}

static void handle_sigsys(void)
{
	struct sigaction action = { .sa_sigaction = on_sigsys, .sa_flags = SA_SIGINFO };
	if (sigaction(SIGSYS, &action, 0))
		fail("sigaction");
}

static void make(const struct call *call)
{
	errno = 0;
	long result = call->makes();
	say("%ld, %d", result, errno);
}

/* Does it in a process of its own, and tells how that ended. */
#define APART(...) \
	do { \
		fflush(stdout); \
		pid_t pid = fork(); \
		if (pid == 0) { \
			__VA_ARGS__; \
			_exit(0); \
		} \
		int status; \
		if (waitpid(pid, &status, 0) != pid) \
			fail("waitpid"); \
		say(" (exit %d, signal %d)\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1, \
		    WIFSIGNALED(status) ? WTERMSIG(status) : 0); \
	} while (0)

static void *make_in_thread(void *call)
{
	make(call);
	return 0;
}

static void *filter_in_thread(void *call)
{
	forbid(((const struct call *)call)->nr, SECCOMP_RET_ERRNO | 42, 0);
	make(call);
	return 0;
}

static unsigned own_verdict;
static void *end_in_thread(void *call)
{
	forbid(((const struct call *)call)->nr, own_verdict, 0);
	make(call);
	return 0;
}

static void *be_strict(void *call)
{
	(void)call;
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT))
		_exit(97);
	naps_raw();
	say("goes on");
	return 0;
}

static void in_thread(void *(*does)(void *), const struct call *call)
{
	pthread_t thread;
	if (pthread_create(&thread, 0, does, (void *)call) || pthread_join(thread, 0))
		fail("a thread");
}

/* Twice as often as it takes until a call may come without a signal. */
static void make_often(const struct call *call)
{
	for (int i = 0; i < 12; i++)
		call->makes();
}

static const struct call *named(const char *name)
{
	for (const struct call *call = calls; call < calls + CALLS; call++)
		if (!strcmp(call->name, name))
			return call;
	exit(96);
}

static void more(char *self)
{
	const struct call *nap = named("clock_nanosleep"), *poll = named("poll"), *ask = named("getppid");
	char *const again[] = { self, "nanosleep", 0 };

	say("of two the later: ");
	APART(forbid(nap->nr, SECCOMP_RET_ERRNO | 42, 0); forbid(nap->nr, SECCOMP_RET_ERRNO | 43, ~0u); make(nap));
	say("of two the stricter: ");
	APART(handle_sigsys(); forbid(nap->nr, SECCOMP_RET_TRAP | 5, 0); forbid(nap->nr, SECCOMP_RET_ERRNO | 43, 0);
	      make(nap));
	say("an error is stricter than a tracer: ");
	APART(forbid(nap->nr, SECCOMP_RET_ERRNO | 42, 0); forbid(nap->nr, SECCOMP_RET_TRACE, 0); make(nap));
	say("a trap without a handler: ");
	APART(forbid(nap->nr, SECCOMP_RET_TRAP, 0); make(nap));

	say("in a child: ");
	APART(forbid(nap->nr, SECCOMP_RET_ERRNO | 42, 0); APART(make(nap)));
	say("in a thread: ");
	APART(forbid(nap->nr, SECCOMP_RET_ERRNO | 42, 0); in_thread(make_in_thread, nap));
	say("of all threads: ");
	APART(in_thread(filter_in_thread, ask); say("; "); forbid(poll->nr, SECCOMP_RET_ERRNO | 42, SECCOMP_FILTER_FLAG_TSYNC);
	      make(poll));
	say("of another thread only: ");
	APART(in_thread(filter_in_thread, nap); say("; "); make(nap));
	say("ends a thread: ");
	APART(own_verdict = SECCOMP_RET_KILL_THREAD; in_thread(end_in_thread, nap); make(nap));
	say("ends a process: ");
	APART(own_verdict = SECCOMP_RET_KILL_PROCESS; in_thread(end_in_thread, nap); make(nap));
	say("strict in a thread: ");
	APART(in_thread(be_strict, nap); make(nap));

	static const unsigned kinds[] = { SECCOMP_RET_ERRNO | 42, SECCOMP_RET_TRACE, SECCOMP_RET_KILL_PROCESS };
	for (int i = 0; i < 3; i++) {
		say("after an exec, verdict %x: ", kinds[i]);
		APART(forbid(SYS_nanosleep, kinds[i], 0); execv(self, again));
		say("of another call: ");
		APART(forbid(SYS_getppid, kinds[i], 0); execv(self, again));
		say("after many calls: ");
		APART(make_often(nap); forbid(nap->nr, kinds[i], 0); make(nap));
	}
	/* Calls that a program needs to begin, and no more: neither those that map the image nor those that ask for it. */
	static const int needed[] = { SYS_execve, SYS_brk, SYS_mmap, SYS_mprotect, SYS_munmap, SYS_arch_prctl,
				      SYS_set_tid_address, SYS_set_robust_list, SYS_rseq, SYS_prlimit64, SYS_readlinkat,
				      SYS_readlink, SYS_getrandom, SYS_openat, SYS_read, SYS_close, SYS_newfstatat, SYS_pread64,
				      SYS_access, SYS_write, SYS_futex, SYS_exit_group, SYS_nanosleep, SYS_fstat };
	enum { N = sizeof needed / sizeof *needed };
	struct sock_filter list[N + 3];
	list[0] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, FIELD(nr));
	for (int i = 0; i < N; i++)
		list[1 + i] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, needed[i], N - i, 0);
	list[1 + N] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	list[2 + N] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	say("a closed list over an exec: ");
	APART(if (install(0, list, N + 3)) fail("the list"); execv(self, again));

	struct sock_filter computed[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, FIELD(nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_nanosleep, 0, 2),
		BPF_STMT(BPF_LD | BPF_IMM, SECCOMP_RET_ERRNO | 42),
		BPF_STMT(BPF_RET | BPF_A, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 3),
		BPF_STMT(BPF_LD | BPF_IMM, SECCOMP_RET_ERRNO | 43),
		BPF_STMT(BPF_ST, 15),
		BPF_STMT(BPF_RET | BPF_A, 0),
		BPF_STMT(BPF_LD | BPF_IMM, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_A, 0),
	};
	say("computed verdicts: ");
	APART(if (install(0, computed, 10)) fail("computed"); make(named("nanosleep")); say("; "); make(ask); say("; ");
	      make(poll));
	/* The accumulator when a filter begins: nothing. */
	struct sock_filter nothing[] = {
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	say("begins with nothing: ");
	APART(if (install(0, nothing, 3)) fail("nothing"); make(nap));
	/* Where it comes from: the upper half of the address of `syscall` in the C library. */
	struct sock_filter from[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, FIELD(instruction_pointer) + 4),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)((unsigned long)syscall >> 32), 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, FIELD(nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 42),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	say("by the address: ");
	APART(if (install(0, from, 7)) fail("from"); make(named("nanosleep")); say("; "); make(ask));

	static struct sock_filter longest[4096];
	for (int i = 0; i < 4096; i++)
		longest[i] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, FIELD(nr));
	struct sock_filter *end = longest + 4000;
	end[0] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_nanosleep, 0, 1);
	end[1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 42);
	end[2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	say("a long one: ");
	APART(if (install(0, longest, 4003)) fail("long"); make(named("nanosleep")); say("; "); make(nap));

	say("wrong ones:");
	struct sock_filter far[] = { BPF_JUMP(BPF_JMP | BPF_JA, 9, 0, 0), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
	for (unsigned by = 0; by < 2; by++) {
		unsigned flags = by ? ~0u : 0;
		say(" %d", install(flags, far, 2) ? errno : 0);
		say(" %d", install(flags, far, 1) ? errno : 0);
		say(" %d", install(flags, far, 0) ? errno : 0);
		say(" %d", install(flags, longest, 4097) ? errno : 0);
		say(" %d", install(flags, (struct sock_filter *)8, 5) ? errno : 0);
		say(" %d", install(flags, longest, 30) ? errno : 0);
	}
	/* Out of the filter. */
	for (unsigned k = 1; k < 40; k++) {
		struct sock_filter out[] = { BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, k, 0), BPF_STMT(BPF_RET | BPF_K, 0) };
		struct sock_filter far_out[] = { BPF_JUMP(BPF_JMP | BPF_JA, k, 0, 0), BPF_STMT(BPF_RET | BPF_K, 0) };
		if (!install(0, out, 2) || !install(0, far_out, 2))
			say(" %u", k);
	}
	say(" %d", install(0x8000, nothing, 3) ? errno : 0);
	say(" %d\n", prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, 8) ? errno : 0);
}

int main(int argc, char **argv)
{
	if (argc > 1) {
		make(named(argv[1]));
		_exit(0);
	}
	for (unsigned v = 0; v < VERDICTS; v++) {
		for (unsigned c = 0; c < CALLS; c++) {
			say("%s, %s: ", verdicts[v].name, calls[c].name);
			APART(handle_sigsys(); forbid(calls[c].nr, verdicts[v].verdict, v & 1 ? ~0u : 0); make(calls + c));
		}
	}
	for (unsigned v = 0; v < VERDICTS; v++) {
		for (unsigned c = 0; c < CALLS; c++) {
			say("only %s, or %s: ", calls[c].name, verdicts[v].name);
			APART(allow_only(calls[c].nr, verdicts[v].verdict); make(calls + c));
		}
	}
	more(argv[0]);
	return 0;
}
