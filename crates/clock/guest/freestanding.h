/* Types, system calls and numbers of x86-64 Linux for code without a libc. */
#ifndef DIORAMA_FREESTANDING_H
#define DIORAMA_FREESTANDING_H

#include <asm/unistd.h>
#include <stdbool.h>
#include <stddef.h>

/* Newer than some headers. */
#ifndef __NR_clone3
#define __NR_clone3 435
#endif
#ifndef __NR_openat2
#define __NR_openat2 437
#endif
#ifndef __NR_epoll_pwait2
#define __NR_epoll_pwait2 441
#endif
#ifndef __NR_futex_waitv
#define __NR_futex_waitv 449
#endif
#ifndef __NR_futex_wait
#define __NR_futex_wait 455
#endif

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long u64;
typedef int i32;
typedef long i64;

struct timespec {
	i64 sec, nsec;
};
struct timeval {
	i64 sec, usec;
};
struct itimerspec {
	struct timespec interval, value;
};
struct itimerval {
	struct timeval interval, value;
};

/* The kernel's signal frame (arch/x86/include/uapi/asm/sigcontext.h, ucontext.h). */
struct siginfo {
	i32 signo, err, code, pad;
	u64 call_addr;
	i32 syscall;
	u32 arch;
	u8 rest[96];
};
struct ucontext {
	u64 flags, link;
	u64 stack_sp, stack_flags, stack_size;
	u64 r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip;
	u64 eflags, segments, err, trapno, oldmask, cr2, fpstate, reserved[8];
	u64 sigmask;
};

#define EPERM 1
#define ESRCH 3
#define EINTR 4
#define EIO 5
#define E2BIG 7
#define EAGAIN 11
#define ENOMEM 12
#define EACCES 13
#define EFAULT 14
#define EBUSY 16
#define ENOENT 2
#define EINVAL 22
#define ENOTDIR 20
#define ENOSYS 38
#define ETIMEDOUT 110

#define CLOCK_REALTIME 0
#define CLOCK_MONOTONIC 1
#define CLOCK_PROCESS_CPUTIME_ID 2
#define CLOCK_THREAD_CPUTIME_ID 3
#define CLOCK_MONOTONIC_RAW 4
#define CLOCK_REALTIME_COARSE 5
#define CLOCK_MONOTONIC_COARSE 6
#define CLOCK_BOOTTIME 7
#define CLOCK_REALTIME_ALARM 8
#define CLOCK_BOOTTIME_ALARM 9
#define CLOCK_TAI 11
#define TIMER_ABSTIME 1

#define SIGKILL 9
#define SIGSEGV 11
#define SIGCHLD 17
#define SIGSTOP 19
#define SIGSYS 31
#define MASK_OF(sig) (1ull << ((sig) - 1))

#define AT_FDCWD -100
#define O_CLOEXEC 0x80000

#define NS 1000000000ull
#define PAGE_OF(address) ((address) & ~0xfffull)

/* A number as assembly takes it. */
#define NUMBER(n) NUMBER_(n)
#define NUMBER_(n) #n

static inline long syscall6(u64 nr, u64 a, u64 b, u64 c, u64 d, u64 e, u64 f)
{
	long result;
	register u64 r10 __asm__("r10") = d;
	register u64 r8 __asm__("r8") = e;
	register u64 r9 __asm__("r9") = f;
	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
}
/* syscall(nr, arguments…), the missing ones 0. */
#define SYSCALL_7TH(nr, a, b, c, d, e, f, ...) syscall6(nr, (u64)(a), (u64)(b), (u64)(c), (u64)(d), (u64)(e), (u64)(f))
#define syscall(...) SYSCALL_7TH(__VA_ARGS__, 0, 0, 0, 0, 0, 0, 0)

/* Writes a number in front of `end`; where it begins. */
static inline char *decimal(char *end, u64 n)
{
	do
		*--end = (char)('0' + n % 10);
	while (n /= 10);
	return end;
}

static inline void copy(void *to, const void *from, u64 len)
{
	/* rep movsb: gcc would turn a loop into a call of memcpy, which does not exist here. */
	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(len) : : "memory");
}

#endif
