/*
 * Instructions that call the kernel, some of which a dilated process changes (guest/sites.c). Each kind is called many
 * times, and must do the same before and after it is changed. Says of each kind, in a line, which byte it begins with
 * then: b8 as compiled, e9 a jump. What goes wrong is said, too, and is the exit code.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "instants.h"

#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65
#define PR_MDWE_REFUSE_EXEC_GAIN 1
#endif

#define MANY 20

static int failed;
#define CHECK(what) \
	do { \
		if (!(what)) \
			printf("line %d: %s\n", __LINE__, #what), failed = 1; \
	} while (0)

#ifdef AS_GO_HAS
/* The note that the Go tool chain puts into its programs. */
__asm__(".pushsection .note.go.buildid, \"a\", @note\n"
	".long 4, 4, 4\n"
	".asciz \"Go\\0\"\n"
	".long 0\n"
	".popsection\n");
#endif

/* NAME(a, b): a call of the kernel that begins `offset` bytes behind a multiple of eight. */
#define SITE(name, offset, number) \
	__asm__(".text\n" \
		".balign 8\n" \
		".rept " #offset "\n" \
		"nop\n" \
		".endr\n" \
		#name ":\n" \
		".cfi_startproc\n" \
		"	mov $" #number ", %eax\n" \
		"	syscall\n" \
		"	ret\n" \
		".cfi_endproc\n"); \
	long name(const void *a, void *b)

SITE(even, 0, 4 /* stat */);
SITE(odd, 5, 4);
SITE(sleeping, 8, 35 /* nanosleep */);
SITE(in_threads, 1, 4);
SITE(in_child, 2, 4);
SITE(forked, 3, 4);
SITE(cancelled, 0, 35);
SITE(filtered, 0, 4);
SITE(sealed, 0, 4);
SITE(copied, 0, 4);
/*
 * By number: NAME(a, b, number). The instructions of glibc's that get it, or the last argument, from the stack, and one
 * more in front so that all five bytes are within eight.
 */
#define BY_NUMBER(name, instruction, after) \
	__asm__(".text\n" \
		".balign 8\n" \
		#name ":\n" \
		".cfi_startproc\n" \
		"	mov %rdx, %rax\n" \
		"	lea -24(%rsp), %rsp\n" \
		".cfi_adjust_cfa_offset 24\n" \
		"	mov %rax, 16(%rsp)\n" \
		"	movq $3, 8(%rsp)\n" \
		"	mov $4, %r11\n" \
		"	.balign 8\n" \
		#name "_site:\n" \
		"	" instruction "\n" \
		"	syscall\n" \
		"	" after "\n" \
		"	lea 24(%rsp), %rsp\n" \
		".cfi_adjust_cfa_offset -24\n" \
		"	ret\n" \
		".cfi_endproc\n"); \
	long name(const void *a, void *b, long number); \
	extern const char name##_site[]
BY_NUMBER(one_thread, "mov 16(%rsp), %rax", "");
BY_NUMBER(several_threads, "mov %r11, 8(%rsp)", "mov 8(%rsp), %rcx; mov %rcx, found(%rip)");
BY_NUMBER(by_syscall, "mov 8(%rsp), %r9", "mov %r9, found(%rip)");
long found;
/* No mov to eax, though it may look like one. */
__asm__(".text\n"
	".balign 8\n"
	"in_another:\n"
	"	mov %edx, %eax\n"
	"	mov $4, %r8d\n"
	"	syscall\n"
	"	ret\n");
long in_another(const void *a, void *b, long number);

static void says(const char *name, const void *site)
{
	printf("%s %02x\n", name, *(const unsigned char *)site);
}

static int is_root(const struct stat *s)
{
	return S_ISDIR(s->st_mode) && s->st_ino;
}

static void many(long (*site)(const void *, void *))
{
	struct stat s;
	for (int i = 0; i < MANY; i++) {
		memset(&s, 0, sizeof s);
		CHECK(site("/", &s) == 0 && is_root(&s));
		CHECK(site("/no/such", &s) == -ENOENT);
		CHECK(site("/", (void *)8) == -EFAULT);
	}
}

/*
 * preserved(path, stat, flags) calls stat with a number of its own in every other register, and in the 128 bytes below
 * the stack pointer, which a function may use that calls no other. What is there afterwards is in `seen`.
 */
long preserved(const void *path, void *stat, long flags);
extern const char preserved_site[], preserved_after[];
struct {
	long rax, rdi, rsi, rcx, flags, numbers[13];
} seen;
__asm__(".text\n"
	"preserved:\n"
	"	push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15\n"
	"	push %rdx; popfq\n"
	"	mov $100, %edx; mov $101, %r10d; mov $102, %r8d; mov $103, %r9d\n"
	"	mov $104, %ebx; mov $105, %ebp; mov $106, %r12d; mov $107, %r13d; mov $108, %r14d; mov $109, %r15d\n"
	"	movq $110, -8(%rsp); movq $111, -64(%rsp); movq $112, -128(%rsp)\n"
	"	.balign 8\n"
	"preserved_site:\n"
	"	mov $4, %eax\n"
	"	syscall\n"
	"preserved_after:\n"
	"	mov %rax, seen(%rip); mov %rdi, seen+8(%rip); mov %rsi, seen+16(%rip); mov %rcx, seen+24(%rip)\n"
	"	mov %rdx, seen+40(%rip); mov %r10, seen+48(%rip); mov %r8, seen+56(%rip); mov %r9, seen+64(%rip)\n"
	"	mov %rbx, seen+72(%rip); mov %rbp, seen+80(%rip); mov %r12, seen+88(%rip); mov %r13, seen+96(%rip)\n"
	"	mov %r14, seen+104(%rip); mov %r15, seen+112(%rip)\n"
	"	mov -8(%rsp), %rax; mov %rax, seen+120(%rip); mov -64(%rsp), %rax; mov %rax, seen+128(%rip)\n"
	"	mov -128(%rsp), %rax; mov %rax, seen+136(%rip)\n"
	"	pushfq; pop %rax; mov %rax, seen+32(%rip)\n"
	"	cld\n"
	"	pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx\n"
	"	ret\n");

static void changes_nothing(void)
{
	/* Carry, parity, adjust, zero, sign, overflow; direction; none. What is always set is set. */
	static const long flags[] = { 0xad7, 0x602, 0x202 };
	struct stat s;
	for (int i = 0; i < MANY; i++) {
		long asked = flags[i % 3];
		preserved("/", &s, asked);
		CHECK(seen.rax == 0 && is_root(&s));
		CHECK(seen.rsi == (long)&s && !strcmp((char *)seen.rdi, "/"));
		CHECK(seen.rcx == (long)preserved_after);
		CHECK((seen.flags & 0xed7) == asked);
		for (int n = 0; n < 13; n++)
			CHECK(seen.numbers[n] == 100 + n);
	}
	says("preserved", preserved_site);
}

static void waits(void)
{
	struct timespec t = span(2000000);
	for (int i = 0; i < MANY; i++) {
		long long start = now(CLOCK_MONOTONIC);
		CHECK(sleeping(&t, 0) == 0);
		CHECK(now(CLOCK_MONOTONIC) - start >= 2000000);
	}
	says("sleeping", sleeping);
}

static volatile int rang;
static void ring(int sig)
{
	(void)sig;
	rang++;
}

/* A handler interrupts it as it does any call, and it says what is left. */
static void interrupted(void)
{
	struct sigaction action = { .sa_handler = ring };
	struct itimerval soon = { .it_value.tv_usec = 10000 };
	struct timespec t = span(10000000000ll), left = { 0 };
	sigaction(SIGALRM, &action, 0);
	setitimer(ITIMER_REAL, &soon, 0);
	CHECK(sleeping(&t, &left) == -EINTR && rang == 1);
	CHECK(ns(left) > 1000000000ll && ns(left) < 10000000000ll);
}

/* Busy calls and others by the same site, among them one that traps but is not busy. */
static void by_number(const char *name, long (*site)(const void *, void *, long), const void *code, long finds)
{
	struct timespec t = span(1000000);
	struct stat s;
	for (int i = 0; i < MANY; i++) {
		found = 0;
		CHECK(site("/", &s, SYS_stat) == 0 && is_root(&s));
		CHECK(found == finds);
		CHECK(site("/no/such", (void *)F_OK, SYS_access) == -ENOENT);
		CHECK(site(0, 0, SYS_getpid) == getpid());
		long long start = now(CLOCK_MONOTONIC);
		CHECK(site((void *)&t, 0, SYS_nanosleep) == 0);
		CHECK(now(CLOCK_MONOTONIC) - start >= ns(t));
		struct itimerval left, day = { .it_value.tv_sec = 86400 };
		setitimer(ITIMER_REAL, &day, 0);
		CHECK(site((void *)ITIMER_REAL, &left, SYS_getitimer) == 0 && left.it_value.tv_sec > 86000);
		CHECK(left.it_value.tv_sec <= 86400);
	}
	setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, 0);
	says(name, code);
}

static void *calls(void *barrier)
{
	pthread_barrier_wait(barrier);
	for (int i = 0; i < 50; i++)
		many(in_threads);
	return 0;
}

static void threads(void)
{
	pthread_t thread[8];
	pthread_barrier_t barrier;
	pthread_barrier_init(&barrier, 0, 8);
	for (int i = 0; i < 8; i++)
		pthread_create(&thread[i], 0, calls, &barrier);
	for (int i = 0; i < 8; i++)
		pthread_join(thread[i], 0);
	says("in_threads", in_threads);
}

/* Changes of a child are the child's; those of its parent it has. */
static void children(void)
{
	int status;
	many(forked);
	fflush(stdout);
	if (!fork()) {
		many(forked);
		many(in_child);
		says("in_forked_child", in_child);
		fflush(stdout);
		_exit(failed);
	}
	CHECK(wait(&status) > 0 && status == 0);
	says("after_forked_child", in_child);
	pid_t child = vfork();
	if (!child) {
		many(in_child);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	says("after_vforked_child", in_child);
	says("forked", forked);
}

static int cleaned;
static void clean(int *what)
{
	cleaned += *what;
}

static void *sleeps(void *unused)
{
	int __attribute__((cleanup(clean))) one = 1;
	int old;
	struct timespec none = { 0 }, t = span(3600000000000ll);
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
	for (int i = 0; i < MANY; i++)
		cancelled(&none, 0);
	cancelled(&t, 0);
	return unused;
}

/* A thread that is cancelled in the middle goes back through whoever made the call. */
static void unwinds(void)
{
	pthread_t thread;
	void *result;
	pthread_create(&thread, 0, sleeps, 0);
	usleep(50000);
	pthread_cancel(thread);
	pthread_join(thread, &result);
	CHECK(result == PTHREAD_CANCELED && cleaned == 1);
	says("cancelled", cancelled);
}

static void generated(void)
{
	unsigned char *code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(code, (void *)copied, 8);
	many((long (*)(const void *, void *))code);
	says("generated", code);
}

/* Afterwards mprotect is death. */
static void filters(void)
{
	struct sock_filter code[] = {
		{ BPF_LD | BPF_W | BPF_ABS, 0, 0, 0 },
		{ BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_mprotect },
		{ BPF_RET | BPF_K, 0, 0, SECCOMP_RET_KILL_PROCESS },
		{ BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW },
	};
	struct sock_fprog program = { 4, code };
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
	many(filtered);
	many(even);
	says("filtered", filtered);
	says("even", even);
}

/* A process that may not make memory executable that it can write to, or the other way round. */
static void may_not(void)
{
	int status;
	fflush(stdout);
	if (!fork()) {
		/* Linux 6.3 and later. */
		int refused = prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0);
		many(sealed);
		if (!refused)
			says("sealed", sealed);
		fflush(stdout);
		_exit(failed);
	}
	CHECK(wait(&status) > 0 && status == 0);
}

int main(void)
{
	changes_nothing();
	many(even);
	says("even", even);
	many(odd);
	says("odd", odd);
	waits();
	by_number("one_thread", one_thread, one_thread_site, 0);
	by_number("several_threads", several_threads, several_threads_site, 4);
	by_number("by_syscall", by_syscall, by_syscall_site, 3);
	interrupted();
	threads();
	children();
	unwinds();
	generated();
	may_not();
	struct stat s;
	for (int i = 0; i < MANY; i++)
		CHECK(in_another("/", &s, 4) == 0 && is_root(&s));
	says("in_another", (const char *)in_another + 3);
	filters();
	return failed;
}
