/*
 * Does away with all of its memory but what it stands on, as loaders of other programs do, and goes on from there.
 *
 *   emptied all      unmaps what is above it by one call
 *   emptied parts    what is below and above, by two, as restorers of checkpoints do
 *   emptied stack    the same, from a stack that it unmaps by it
 *   emptied fork     the same, in a child
 *   emptied over     maps pages beside the image, and then one where that is
 *   emptied moved    moves a page there
 *   emptied traced   empties a child that it traces, and has that make calls without a time, and then one with
 *
 * Prints how long it has slept afterwards, in ms, and then what a filter of its own says of getppid. What it needs lies
 * in two regions that it has asked for: code and data, without a libc.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <elf.h>
#include <sys/rseq.h>

#define END 0x7ffffffff000ul
#define IMAGE 0x550500000000ul
#define ROOM 0x10000ul
/* Addresses of the two regions. */
#define CODE 0x200000000000ul
#define DATA (CODE + 2 * ROOM)

#define ALONE __attribute__((section("alone"), noinline, used))
extern char __start_alone[], __stop_alone[];

static inline __attribute__((always_inline)) long call(long nr, long a, long b, long c, long d)
{
	register long r10 __asm__("r10") = d, r8 __asm__("r8") = -1, r9 __asm__("r9") = 0;
	long result;
	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "0"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
}

struct data {
	long from[2][2], stack;
	struct timespec before, after, nap;
	struct sock_filter filter[4];
	struct sock_fprog program;
	char text[64];
};

static inline __attribute__((always_inline)) void show(struct data *d, long number)
{
	char *at = d->text + sizeof d->text;
	*--at = '\n';
	do
		*--at = (char)('0' + number % 10);
	while (number /= 10);
	call(SYS_write, 1, (long)at, d->text + sizeof d->text - at, 0);
}

/* munmap from a stack that it does away with. */
static inline __attribute__((always_inline)) long unmap(const struct data *d, int which)
{
	long result;
	__asm__ volatile("mov %%rsp, %%r12\n\tmov %1, %%rsp\n\tsyscall\n\tmov %%r12, %%rsp"
			 : "=a"(result)
			 : "r"(d->stack), "0"(SYS_munmap), "D"(d->from[which][0]), "S"(d->from[which][1])
			 : "rcx", "r11", "r12", "memory");
	return result;
}

/* On the other stack, at the other address: it must not use anything that the compiler has put elsewhere. */
ALONE static void go_on(struct data *d)
{
	for (int i = 0; i < 2; i++)
		if (d->from[i][1] && unmap(d, i))
			call(SYS_exit_group, 3, 0, 0, 0);
	call(SYS_clock_gettime, CLOCK_MONOTONIC, (long)&d->before, 0, 0);
	if (call(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, (long)&d->nap, 0))
		call(SYS_exit_group, 4, 0, 0, 0);
	call(SYS_clock_gettime, CLOCK_MONOTONIC, (long)&d->after, 0, 0);
	show(d, (d->after.tv_sec - d->before.tv_sec) * 1000 + (d->after.tv_nsec - d->before.tv_nsec) / 1000000);
	call(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0);
	if (call(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, (long)&d->program, 0))
		call(SYS_exit_group, 5, 0, 0, 0);
	show(d, -call(SYS_getppid, 0, 0, 0, 0));
	call(SYS_exit_group, 0, 0, 0, 0);
}

/* The stack is the end of the data. */
static void start(struct data *d, char *stack)
{
	char *to = (char *)CODE + ((char *)go_on - __start_alone);
	__asm__ volatile("mov %0, %%rsp\n\tjmp *%2" : : "r"(stack), "D"(d), "r"(to));
	__builtin_unreachable();
}

static struct data *prepare(void)
{
	char *code = mmap((void *)CODE, ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct data *d = mmap((void *)DATA, ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (code != (char *)CODE || d != (struct data *)DATA)
		return 0;
	memcpy(code, __start_alone, (size_t)(__stop_alone - __start_alone));
	mprotect(code, ROOM, PROT_READ | PROT_EXEC);
	d->nap.tv_nsec = 50000000;
	struct sock_filter filter[] = {
		{ BPF_LD | BPF_W | BPF_ABS, 0, 0, 0 },
		{ BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_getppid },
		{ BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | 77 },
		{ BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW },
	};
	memcpy(d->filter, filter, sizeof filter);
	d->program.len = 4;
	d->program.filter = d->filter;
	return d;
}

static char *const stack_of_data = (char *)DATA + ROOM - 64;

static __attribute__((noinline)) int empty(const char *how)
{
	struct data *d = prepare();
	if (!d)
		return 2;
	long end = (long)(DATA + ROOM);
	d->stack = *how == 's' ? (long)__builtin_frame_address(0) - 0x1000 : (long)stack_of_data;
	if (*how == 'a') {
		/* All at once, but for the regions, which are first. */
		d->from[0][0] = end;
		d->from[0][1] = (long)END - end;
	} else {
		d->from[0][1] = (long)CODE;
		d->from[1][0] = end;
		d->from[1][1] = (long)END - end;
	}
	if (*how == 'f') {
		int status;
		if (fork()) {
			wait(&status);
			return WIFEXITED(status) ? WEXITSTATUS(status) : 9;
		}
	}
	start(d, stack_of_data);
	return 2;
}

static int over(void)
{
	fflush(stdout);
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
	/* Beside it, all is as ever. */
	if (mmap((void *)(IMAGE - ROOM), ROOM, PROT_READ, flags, -1, 0) != (void *)(IMAGE - ROOM) ||
	    mmap((void *)(IMAGE + 0x100000), ROOM, PROT_READ, flags, -1, 0) != (void *)(IMAGE + 0x100000) ||
	    munmap((void *)(IMAGE - ROOM), ROOM) || munmap((void *)(IMAGE + 0x100000), ROOM))
		return 6;
	puts("beside");
	fflush(stdout);
	void *at = mmap((void *)IMAGE, 0x1000, PROT_READ, flags, -1, 0);
	puts(at == (void *)IMAGE ? "over" : "refused");
	return at != (void *)IMAGE;
}

static int moved(void)
{
	void *page = mmap(0, 0x1000, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *at = mremap(page, 0x1000, 0x1000, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)(IMAGE + 0x1000));
	puts(at == (void *)(IMAGE + 0x1000) ? "moved" : "refused");
	return at != (void *)(IMAGE + 0x1000);
}

/* Has a stopped child make a call; its result. */
static long injected(pid_t pid, const struct user_regs_struct *saved, long nr, long a, long b, long c)
{
	struct user_regs_struct r = *saved;
	int status;
	r.rip = CODE + ROOM - 16;
	r.rax = (unsigned long)nr;
	r.orig_rax = ~0ul;
	r.rdi = (unsigned long)a;
	r.rsi = (unsigned long)b;
	r.rdx = (unsigned long)c;
	r.r10 = 0;
	struct iovec registers = { &r, sizeof r };
	if (ptrace(PTRACE_SETREGSET, pid, NT_PRSTATUS, &registers))
		return -1000;
	do /* The signal by which it was attached to may still be on its way. */
		if (ptrace(PTRACE_CONT, pid, 0, 0) || waitpid(pid, &status, __WALL) != pid)
			return -1000;
	while (WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
	if (!WIFSTOPPED(status) || WSTOPSIG(status) != SIGTRAP)
		return -2000 - (WIFSTOPPED(status) ? WSTOPSIG(status) : WTERMSIG(status));
	ptrace(PTRACE_GETREGSET, pid, NT_PRSTATUS, &registers);
	return (long)r.rax;
}

static int traced(void)
{
	struct data *d = prepare();
	if (!d)
		return 2;
	/* syscall, int3 */
	mprotect((void *)CODE, ROOM, PROT_READ | PROT_WRITE | PROT_EXEC);
	memcpy((char *)CODE + ROOM - 16, "\x0f\x05\xcc", 3);
	pid_t pid = fork();
	if (!pid)
		for (;;)
			raise(SIGSTOP);
	int status;
	struct user_regs_struct saved;
	struct iovec registers = { &saved, sizeof saved };
	waitpid(pid, &status, WUNTRACED);
	if (ptrace(PTRACE_ATTACH, pid, 0, 0) || waitpid(pid, &status, __WALL) != pid ||
	    ptrace(PTRACE_GETREGSET, pid, NT_PRSTATUS, &registers))
		return 7;
	saved.rsp = (unsigned long)stack_of_data;
	long end = (long)(DATA + ROOM);
	printf("unmapped %ld", injected(pid, &saved, SYS_munmap, 0, (long)CODE, 0));
	printf(" %ld", injected(pid, &saved, SYS_munmap, end, (long)END - end, 0));
	printf(", its child is %s\n", injected(pid, &saved, SYS_getppid, 0, 0, 0) == getpid() ? "mine" : "another's");
	fflush(stdout);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	long result = injected(pid, &saved, SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, (long)&d->nap);
	printf("slept %ld\n", result);
	kill(pid, SIGKILL);
	return result ? 1 : 0;
}

/* The kernel writes to an area of the C library's whenever it has had another thread run: that would be gone. */
static void leave_library(void)
{
	char *area = (char *)__builtin_thread_pointer() + __rseq_offset;
	if (syscall(SYS_rseq, area, 32, RSEQ_FLAG_UNREGISTER, RSEQ_SIG))
		syscall(SYS_rseq, area, __rseq_size, RSEQ_FLAG_UNREGISTER, RSEQ_SIG);
}

int main(int argc, char **argv)
{
	leave_library();
	const char *how = argc > 1 ? argv[1] : "";
	return *how == 'o' ? over() : *how == 'm' ? moved() : *how == 't' ? traced() : *how ? empty(how) : 2;
}
