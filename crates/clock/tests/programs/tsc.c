/*
 * The time-stamp counter, and the program's own SIGSEGV handler beside its emulation. First line: cycles per ms of
 * MONOTONIC, in a sleep and busy; then what must be the same natively and dilated.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#define MS 1000000ll

static long long now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static unsigned aux;
static uint64_t rdtsc(void) { return __rdtsc(); }
static uint64_t rdtscp(void) { return __rdtscp(&aux); }

/* Both clocks at one moment, also on a machine on which this program is often interrupted. */
static long long both(uint64_t (*read)(void), uint64_t *cycles)
{
	long long before, after;
	int tries = 1000;
	do {
		before = now();
		*cycles = read();
		after = now();
	} while (after - before > MS / 20 && --tries);
	return before;
}

static long long rate(int sleeps, uint64_t (*read)(void))
{
	uint64_t first, last;
	long long start = both(read, &first);
	if (sleeps)
		nanosleep(&(struct timespec){ 0, 30 * MS }, 0);
	else
		while (now() < start + 30 * MS)
			;
	long long end = both(read, &last);
	return (long long)((last - first) * 1000000 / (uint64_t)(end - start));
}

static sigjmp_buf jump;
static volatile sig_atomic_t seen;
static void *volatile address;
static void *page;

static void leap(int sig, siginfo_t *info, void *context)
{
	(void)context;
	rdtsc(); /* in the handler, where SIGSEGV is blocked */
	seen = sig;
	address = info->si_addr;
	siglongjmp(jump, 1);
}

static void mend(int sig, siginfo_t *info, void *context)
{
	(void)context;
	seen = sig;
	address = info->si_addr;
	mprotect(page, 4096, PROT_READ | PROT_WRITE);
}

static void note(int sig) { seen = sig; }

static void handle(void (*action)(int, siginfo_t *, void *), int flags)
{
	struct sigaction a = { .sa_sigaction = action, .sa_flags = SA_SIGINFO | flags };
	sigaction(SIGSEGV, &a, 0);
}

static void *in_thread(void *unused)
{
	uint64_t a = rdtsc(), b = rdtscp(), c = rdtsc();
	return a <= b && b <= c ? (void *)&seen : unused;
}

static int ends(void (*how)(void))
{
	int status;
	fflush(stdout);
	if (fork() == 0) {
		how();
		_exit(0);
	}
	wait(&status);
	return status & 0x7f;
}

static void access_null(void) { *(volatile int *)8 = 1; }
static void default_access(void) { signal(SIGSEGV, SIG_DFL); access_null(); }
static void default_sent(void) { signal(SIGSEGV, SIG_DFL); raise(SIGSEGV); }
static void ignored_access(void) { signal(SIGSEGV, SIG_IGN); access_null(); }
static void ignored_sent(void) { signal(SIGSEGV, SIG_IGN); raise(SIGSEGV); rdtsc(); }
static void privileged(void) { signal(SIGSEGV, SIG_DFL); __asm__ volatile("hlt"); }

int main(int argc, char **argv)
{
	if (argc > 1) {
		uint64_t first = rdtsc();
		puts(rdtsc() > first ? "after exec: counts" : "after exec: stands");
		return 0;
	}
	printf("%lld %lld %lld\n", rate(1, rdtsc), rate(0, rdtsc), rate(0, rdtscp));
	uint64_t last = 0;
	int back = 0;
	for (int i = 0; i < 10000; i++) {
		uint64_t read = i % 2 ? rdtscp() : rdtsc();
		back += read < last;
		last = read;
	}
	printf("backwards: %d\n", back);
	unsigned cpu, node;
	cpu_set_t one;
	sched_getaffinity(0, sizeof one, &one);
	int first = 0;
	while (!CPU_ISSET(first, &one))
		first++;
	CPU_ZERO(&one);
	CPU_SET(first, &one);
	sched_setaffinity(0, sizeof one, &one);
	rdtscp();
	syscall(SYS_getcpu, &cpu, &node, 0);
	printf("rdtscp names the CPU: %d\n", aux == (node << 12 | cpu));

	for (int i = 0; i < 3; i++) {
		handle(leap, 0);
		if (sigsetjmp(jump, 1) == 0)
			access_null();
		printf("handler: signal %d at %p\n", seen, address);
		seen = 0;
		rdtsc();
	}
	page = mmap(0, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	handle(mend, SA_RESETHAND);
	*(volatile int *)page = 1;
	struct sigaction a;
	sigaction(SIGSEGV, 0, &a);
	printf("mended: signal %d, right address %d, reset %d\n", seen, address == page, a.sa_handler == SIG_DFL);
	signal(SIGSEGV, note);
	sigaction(SIGSEGV, 0, &a);
	seen = 0;
	raise(SIGSEGV);
	printf("sent: signal %d, own handler told %d\n", seen, a.sa_handler == note);
	sigset_t all;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, 0);
	rdtsc();
	sigemptyset(&all);
	sigprocmask(SIG_SETMASK, &all, 0);
	puts("read with all signals blocked");
	printf("ends: %d %d %d %d %d\n", ends(default_access), ends(default_sent), ends(ignored_access),
	       ends(ignored_sent), ends(privileged));
	pthread_t t;
	void *good = 0;
	pthread_create(&t, 0, in_thread, 0);
	pthread_join(t, &good);
	printf("thread: %d\n", good != 0);
	fflush(stdout);
	execl("/proc/self/exe", argv[0], "again", (char *)0);
	return 1;
}
