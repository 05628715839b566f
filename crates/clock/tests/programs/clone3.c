/*
 * clone3 in its forms: as a fork, as a thread, as a vfork with and without a stack of its own, on a signal stack, with
 * CLONE_CLEAR_SIGHAND. The output must be the same natively and dilated. With the argument "child" it says what became
 * of its signal handlers.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fenv.h>
#include <linux/futex.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef CLONE_CLEAR_SIGHAND
#define CLONE_CLEAR_SIGHAND 0x100000000ULL
#endif
#define STACK 65536
#define NAP 2000000

extern char **environ;
static volatile sig_atomic_t seen;
static void note(int sig) { seen = sig; }

static long long now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

/* By a trapped call. */
static int naps(void)
{
	struct timespec t = { 0, NAP };
	long long start = now();
	return syscall(SYS_nanosleep, &t, 0) == 0 && now() - start >= NAP;
}

/*
 * What the child does, and ends: it has only what it is given in registers, as in a C library. All others must have
 * come through. The parent's are looked at, too: the result is -1 if one has changed.
 */
struct seen {
	uint64_t before[12], parent[12], child[12];
};
__attribute__((naked, noinline)) static long
raw(struct clone_args *args, size_t size, void (*child)(void *), void *given, struct seen *s)
{
	(void)args, (void)size, (void)child, (void)given, (void)s;
	__asm__("push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push %r15\n"
		"mov $0x1111, %ebx\n mov $0x2222, %ebp\n mov $0x3333, %r13d\n mov $0x4444, %r14d\n"
		"mov $0x5555, %r15d\n mov $0x6666, %r9d\n"
		"mov %rcx, %r10\n" /* given */
		"mov %r8, %r12\n"
		"mov %rbx, 0(%r12)\n mov %rbp, 8(%r12)\n mov %r13, 16(%r12)\n mov %r14, 24(%r12)\n mov %r15, 32(%r12)\n"
		"mov %r9, 40(%r12)\n mov %r10, 48(%r12)\n mov %rdi, 56(%r12)\n mov %rsi, 64(%r12)\n mov %rdx, 72(%r12)\n"
		"mov %r8, 80(%r12)\n mov %r12, 88(%r12)\n"
		"mov $435, %eax\n syscall\n"
		"test %rax, %rax\n jz 1f\n"
		"add $96, %r12\n"
		"mov %rbx, 0(%r12)\n mov %rbp, 8(%r12)\n mov %r13, 16(%r12)\n mov %r14, 24(%r12)\n mov %r15, 32(%r12)\n"
		"mov %r9, 40(%r12)\n mov %r10, 48(%r12)\n mov %rdi, 56(%r12)\n mov %rsi, 64(%r12)\n mov %rdx, 72(%r12)\n"
		"mov %r8, 80(%r12)\n sub $96, %r12\n mov %r12, 184(%r12)\n"
		"pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n ret\n"
		"1: add $192, %r12\n"
		"mov %rbx, 0(%r12)\n mov %rbp, 8(%r12)\n mov %r13, 16(%r12)\n mov %r14, 24(%r12)\n mov %r15, 32(%r12)\n"
		"mov %r9, 40(%r12)\n mov %r10, 48(%r12)\n mov %rdi, 56(%r12)\n mov %rsi, 64(%r12)\n mov %rdx, 72(%r12)\n"
		"mov %r8, 80(%r12)\n sub $192, %r12\n mov %r12, 280(%r12)\n"
		"xor %ebp, %ebp\n mov %r10, %rdi\n"
		/* Below what a vfork's parent has there. */
		"sub $256, %rsp\n and $-16, %rsp\n"
		"call *%rdx\n hlt\n");
}

static int wrong_registers(struct seen *s, int shared)
{
	return memcmp(s->before, s->parent, sizeof s->before) || (shared && memcmp(s->before, s->child, sizeof s->before));
}

static void *stack(void)
{
	return mmap(0, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
}

static const char *handler(int sig)
{
	struct sigaction a;
	sigaction(sig, 0, &a);
	return a.sa_handler == SIG_DFL ? "default" : a.sa_handler == SIG_IGN ? "ignored" : "handled";
}

static char told[200];
static volatile int32_t thread_id;

/* Tells what it finds, and ends. */
static void tell(void *given)
{
	sigset_t mask;
	sigprocmask(SIG_BLOCK, 0, &mask);
	int good = naps();
	snprintf(told, sizeof told, "given %s, naps %d, USR1 %s, USR2 %s, TERM %s, SYS %s, blocked USR1 %d TERM %d, rounds %s",
		 (const char *)given, good, handler(SIGUSR1), handler(SIGUSR2), handler(SIGTERM), handler(SIGSYS),
		 sigismember(&mask, SIGUSR1), sigismember(&mask, SIGTERM), fegetround() == FE_UPWARD ? "up" : "otherwise");
	if (!strcmp(given, "copied"))
		puts(told), fflush(stdout);
	for (;;)
		syscall(strcmp(given, "thread") ? SYS_exit_group : SYS_exit, 7);
}

static void execute(void *given)
{
	char *argv[] = { "clone3", "child", given, 0 };
	/* On this very stack. */
	char room[2000];
	memset(room, 0x55, sizeof room);
	__asm__ volatile("" : : "r"(room) : "memory");
	naps();
	execve("/proc/self/exe", argv, environ);
	_exit(9);
}

static void attempt(const char *name, uint64_t flags, int own_stack, void (*child)(void *), char *given)
{
	struct seen s = { 0 };
	struct clone_args a = { .flags = flags, .exit_signal = flags & CLONE_THREAD ? 0 : SIGCHLD };
	int status = 0;
	memset(told, 0, sizeof told);
	if (own_stack) {
		a.stack = (uint64_t)stack();
		a.stack_size = STACK;
	}
	if (flags & CLONE_CHILD_CLEARTID)
		a.child_tid = (uint64_t)&thread_id, a.parent_tid = (uint64_t)&thread_id;
	printf("%s: ", name);
	fflush(stdout);
	long pid = raw(&a, sizeof a, child, given, &s);
	if (pid < 0) {
		printf("fails %ld\n", pid);
		return;
	}
	if (flags & CLONE_THREAD) {
		int32_t id;
		while ((id = thread_id))
			syscall(SYS_futex, &thread_id, FUTEX_WAIT, id, 0, 0, 0);
	} else if (waitpid((pid_t)pid, &status, 0) != pid) {
		printf("cannot be waited for: %d\n", errno);
	}
	printf("%s, status %x, registers %s\n", told, status,
	       wrong_registers(&s, flags & CLONE_VM) ? "changed" : "as before");
	fflush(stdout);
}

static void all(void)
{
	attempt("fork", 0, 0, tell, "copied");
	attempt("fork with a stack", 0, 1, tell, "copied");
	attempt("fork, handlers cleared", CLONE_CLEAR_SIGHAND, 0, tell, "copied");
	attempt("thread", CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
		CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID, 1, tell, "thread");
	attempt("process in the same memory", CLONE_VM, 1, tell, "a stack");
	attempt("the same, handlers cleared", CLONE_VM | CLONE_CLEAR_SIGHAND, 1, tell, "a stack");
	attempt("vfork", CLONE_VM | CLONE_VFORK, 0, tell, "none");
	attempt("vfork, handlers cleared", CLONE_VM | CLONE_VFORK | CLONE_CLEAR_SIGHAND, 0, tell, "none");
	attempt("vfork with a stack", CLONE_VM | CLONE_VFORK, 1, tell, "a stack");
	attempt("vfork and exec", CLONE_VM | CLONE_VFORK, 0, execute, "kept");
	attempt("vfork with a stack and exec", CLONE_VM | CLONE_VFORK, 1, execute, "kept");
	attempt("posix_spawn", CLONE_VM | CLONE_VFORK | CLONE_CLEAR_SIGHAND, 1, execute, "cleared");
	attempt("both", CLONE_VM | CLONE_SIGHAND | CLONE_CLEAR_SIGHAND, 1, tell, "never");
	attempt("unknown", 1ull << 62, 0, tell, "never");
}

static void sizes(void)
{
	struct {
		struct clone_args a;
		uint64_t more[4];
	} args = { .a = { .exit_signal = SIGCHLD } };
	static const size_t of[] = { 0, 63, 64, 72, 80, sizeof args.a, sizeof args, 4097 };
	for (unsigned more = 0; more < 2; more++)
		for (unsigned i = 0; i < sizeof of / sizeof *of; i++) {
			args.more[1] = more;
			long pid = syscall(SYS_clone3, &args, of[i]);
			if (pid == 0)
				_exit(0);
			printf("size %zu, %u: %d\n", of[i], more, pid < 0 ? errno : 0);
			if (pid > 0)
				waitpid((pid_t)pid, 0, 0);
		}
}

static void on_signal_stack(int sig)
{
	(void)sig;
	attempt("vfork on a signal stack", CLONE_VM | CLONE_VFORK, 0, execute, "kept");
	attempt("thread from a signal stack", CLONE_VM, 1, tell, "a stack");
	attempt("fork on a signal stack", 0, 0, tell, "copied");
}

int main(int argc, char **argv)
{
	if (argc > 2) {
		printf("%s: USR1 %s, USR2 %s, naps %d, ", argv[2], handler(SIGUSR1), handler(SIGUSR2), naps());
		return 3;
	}
	sigset_t usr1;
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	sigprocmask(SIG_BLOCK, &usr1, 0);
	signal(SIGUSR1, note);
	signal(SIGUSR2, SIG_IGN);
	signal(SIGTERM, note);
	signal(SIGSYS, note);
	fesetround(FE_UPWARD);
	all();
	sizes();
	stack_t alternate = { .ss_sp = stack(), .ss_size = STACK };
	sigaltstack(&alternate, 0);
	puts("with a signal stack");
	all();
	struct sigaction a = { .sa_handler = on_signal_stack, .sa_flags = SA_ONSTACK };
	sigaction(SIGALRM, &a, 0);
	raise(SIGALRM);
	kill(getpid(), SIGSYS);
	printf("own handlers: %s %s %d\n", handler(SIGUSR1), handler(SIGTERM), seen == SIGSYS);
	return 0;
}
