/*
 * Answers for its child's calls as its tracer (SECCOMP_RET_TRACE). The output must be the same natively and dilated.
 *
 *	traced			all of it
 *	traced attach PID	is the tracer of that process, until it ends
 *	traced wait		says its number, waits until it is traced, and makes two calls
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct timespec nap = { 0, 60000000 }, now;
static struct stat found;
static struct pollfd nothing;
static const long block = 1 << (SIGUSR1 - 1);
static int word;
static char *const argv[] = { "false", 0 };

#define CALLS \
	X(getppid, 0, 0, 0, 0) \
	X(nanosleep, &nap, 0, 0, 0) \
	X(clock_nanosleep, CLOCK_MONOTONIC, 0, &nap, 0) \
	X(clock_gettime, CLOCK_MONOTONIC, &now, 0, 0) \
	X(gettimeofday, &now, 0, 0, 0) \
	X(openat, AT_FDCWD, "/", O_RDONLY | O_CLOEXEC, 0) \
	X(newfstatat, AT_FDCWD, "/", &found, 0) \
	X(poll, &nothing, 0, 60, 0) \
	X(futex, &word, 0, 0, &nap) \
	X(rt_sigprocmask, SIG_BLOCK, &block, 0, 8) \
	X(alarm, 0, 0, 0, 0) \
	X(execve, "/bin/false", argv, 0, 0)

static const struct {
	const char *name;
	long nr, a[4];
} calls[] = {
#define X(name, a, b, c, d) { #name, SYS_##name, { (long)(a), (long)(b), (long)(c), (long)(d) } },
	CALLS
#undef X
};
enum { N = sizeof calls / sizeof *calls, EXECVE = N - 1, FUTEX = N - 4 };

/* Answers of the tracer to a call, and its way of waiting. */
enum what { GO_ON, SKIP, FAIL, OTHER_ARGUMENT, OTHER_CALL, SLOW_CALL, DETACH, DOES };
static const char *const does[] = { "lets it go on",   "skips it",           "lets it fail", "changes an argument",
				    "makes it getppid", "makes it nanosleep", "detaches" };

static void fail(const char *what)
{
	perror(what);
	exit(99);
}

static void install(long nr, unsigned verdict)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, verdict),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof code / sizeof *code, code };
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program))
		fail("the filter");
}

static double seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

/* Outcome of a call, the registers that are its arguments, and about how long it took. */
static void make(int i)
{
	double began = seconds();
	long result, a = calls[i].a[0], b = calls[i].a[1], c = calls[i].a[2];
	register long r10 __asm__("r10") = calls[i].a[3];
	register long r8 __asm__("r8") = 8, r9 __asm__("r9") = 9, rbx __asm__("rbx") = 77;
	__asm__ volatile("syscall"
			 : "=a"(result), "+D"(a), "+S"(b), "+d"(c), "+r"(r10), "+r"(r8), "+r"(r9), "+r"(rbx)
			 : "a"(calls[i].nr)
			 : "rcx", "r11", "memory");
	long fourth = r10, fifth = r8, sixth = r9, other = rbx;
	double took = seconds() - began;
	const long left[] = { a, b, c, fourth };
	printf("%s: %s, arguments %s, %ld %ld %ld, %s; ", calls[i].name,
	       result < 0      ? strerror(-result) :
	       result == 42    ? "42" :
	       result > 0      ? "a number" :
				 "0",
	       memcmp(left, calls[i].a, sizeof left) ? "changed" : "kept", fifth, sixth, other,
	       took < 0.055 ? "at once" :
	       took < 0.155 ? "60 ms" :
			      "160 ms");
	fflush(stdout);
}

/* The program's own calls pass by libc; the one that is asked about is told with its arguments. */
static bool expected(const struct user_regs_struct *r, int i)
{
	const long *a = calls[i].a;
	return (long)r->orig_rax == calls[i].nr && (long)r->rax == -ENOSYS && (long)r->rdi == a[0] &&
	       (long)r->rsi == a[1] && (long)r->rdx == a[2] && (long)r->r10 == a[3] && r->r8 == 8 && r->r9 == 9 &&
	       r->rbx == 77;
}

static struct timespec longer = { 0, 160000000 };

static void meddle(pid_t child, int i, enum what what)
{
	struct user_regs_struct r;
	unsigned long message = 0;
	if (ptrace(PTRACE_GETEVENTMSG, child, 0, &message) || ptrace(PTRACE_GETREGS, child, 0, &r))
		fail("looking");
	printf("told %lu, %s; ", message, expected(&r, i) ? "as made" : "otherwise");
	switch (what) {
	case SKIP:
	case FAIL:
		r.orig_rax = -1;
		r.rax = what == SKIP ? 42 : -EXDEV;
		break;
	case OTHER_ARGUMENT:
		/* Of a wait, which it makes longer; of other calls one that they do not have. */
		if (calls[i].nr == SYS_nanosleep)
			r.rdi = (unsigned long)&longer;
		else if (calls[i].nr == SYS_clock_nanosleep)
			r.rdx = (unsigned long)&longer;
		else if (calls[i].nr == SYS_futex)
			r.r10 = (unsigned long)&longer;
		else if (calls[i].nr == SYS_poll)
			r.rdx = 160;
		else
			r.r9 = 10;
		break;
	case OTHER_CALL:
		r.orig_rax = SYS_getppid;
		break;
	case SLOW_CALL:
		r.orig_rax = SYS_nanosleep;
		r.rdi = (unsigned long)&nap;
		r.rsi = 0;
		break;
	default:
		return;
	}
	if (ptrace(PTRACE_SETREGS, child, 0, &r))
		fail("changing");
}

static pid_t wait_for(pid_t child, int *status, bool by_waitid)
{
	if (!by_waitid)
		return waitpid(child, status, __WALL);
	siginfo_t info = { 0 };
	while (!waitid(P_PID, child, &info, WEXITED | WSTOPPED | WNOHANG) && !info.si_pid)
		sched_yield();
	*status = info.si_code == CLD_EXITED ? W_EXITCODE(info.si_status, 0) :
		  info.si_code == CLD_TRAPPED || info.si_code == CLD_STOPPED ? info.si_status << 8 | 0x7f :
									    info.si_status;
	return info.si_pid;
}

static void *make_in_thread(void *i)
{
	make(*(int *)i);
	return 0;
}

/* A call of a child, and what its tracer makes of it. Other stops than that are counted. */
static void ask(int i, enum what what, bool by_waitid, bool in_thread, long options)
{
	int ready[2], status, others = 0;
	char byte = 0;
	if (pipe(ready))
		fail("pipe");
	printf("%s%s%s: ", options ? does[what] : "nobody listens", by_waitid ? ", by waitid" : "",
	       in_thread ? ", in a thread" : "");
	fflush(stdout);
	pid_t child = fork(), stopped;
	if (!child) {
		/* Until it is traced. */
		if (read(ready[0], &byte, 1) != 1)
			_exit(9);
		install(calls[i].nr, SECCOMP_RET_TRACE | 5);
		pthread_t thread;
		if (!in_thread)
			make(i);
		else if (pthread_create(&thread, 0, make_in_thread, &i) || pthread_join(thread, 0))
			_exit(8);
		if (what == DETACH || !options)
			make(i);
		_exit(0);
	}
	if (ptrace(PTRACE_SEIZE, child, 0, options) || write(ready[1], &byte, 1) != 1)
		fail("seize");
	close(ready[0]);
	close(ready[1]);
	while ((stopped = wait_for(in_thread ? -1 : child, &status, by_waitid)) > 0 && WIFSTOPPED(status)) {
		int event = status >> 16, signal = event ? 0 : WSTOPSIG(status);
		if (event == PTRACE_EVENT_SECCOMP) {
			meddle(stopped, i, what);
			fflush(stdout);
			if (what == DETACH) {
				if (ptrace(PTRACE_DETACH, stopped, 0, 0))
					fail("detach");
				continue;
			}
		} else if (event != PTRACE_EVENT_CLONE && event != PTRACE_EVENT_STOP) {
			others++;
		}
		/* A signal that it does not know is not for the child. */
		if (ptrace(PTRACE_CONT, stopped, 0, signal == SIGSYS ? 0 : signal))
			fail("go on");
	}
	while (in_thread && WIFEXITED(status) && stopped != child)
		stopped = wait_for(-1, &status, by_waitid);
	printf("%d other stops, exit %d\n", others, WIFEXITED(status) ? WEXITSTATUS(status) : -1);
	fflush(stdout);
}

/* Nobody can be told. */
static void nobody(int i)
{
	printf("nobody traces: ");
	fflush(stdout);
	pid_t child = fork();
	if (!child) {
		install(calls[i].nr, SECCOMP_RET_TRACE);
		make(i);
		_exit(0);
	}
	waitpid(child, 0, 0);
	printf("\n");
	fflush(stdout);
}

static int attach(pid_t pid)
{
	int status;
	if (ptrace(PTRACE_SEIZE, pid, 0, PTRACE_O_TRACESECCOMP))
		fail("seize");
	while (waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status))
		ptrace(PTRACE_CONT, pid, 0, status >> 16 ? 0 : WSTOPSIG(status));
	return 0;
}

static int wait_for_tracer(void)
{
	char text[4096] = "";
	printf("%d\n", getpid());
	fflush(stdout);
	do {
		int fd = open("/proc/self/status", O_RDONLY);
		if (read(fd, text, sizeof text - 1) < 0)
			fail("status");
		close(fd);
		usleep(10000);
	} while (strstr(text, "TracerPid:\t0\n"));
	install(SYS_nanosleep, SECCOMP_RET_TRACE);
	make(1);
	make(1);
	printf("\n");
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 1)
		return argc > 2 ? attach(atoi(argv[2])) : wait_for_tracer();
	const long options = PTRACE_O_TRACESECCOMP | PTRACE_O_TRACECLONE;
	for (int i = 0; i < N; i++) {
		/* A traced thread can execute nothing under dilation (docs/clock-shown.md). */
		for (enum what what = i == EXECVE ? SKIP : GO_ON; what < DETACH; what++)
			if (i != EXECVE || what != OTHER_ARGUMENT)
				ask(i, what, what & 1, false, options);
		/* Threads begin and end by others of these. */
		if (i < FUTEX)
			ask(i, SKIP, false, true, options);
		ask(i, SKIP, false, false, 0);
		nobody(i);
	}
	ask(1, GO_ON, false, true, options);
	ask(1, DETACH, false, false, options);
	ask(3, DETACH, false, false, options);
	return 0;
}
