/* The SIGSYS handler: every trapped call arrives here, in the thread that made it. */
#include "dilation.h"

#define SYS_SECCOMP 1

/* The exact bytes by which gdb and libgcc's unwinder know a signal frame. */
__asm__(".text\n"
	".globl restorer\n"
	".hidden restorer\n"
	".type restorer, @function\n"
	"	nop\n" /* unwinders look up the return address minus 1 */
	"restorer:\n"
	"	mov $15, %rax\n"
	"	syscall\n");

static long dispatch(struct call *c)
{
	switch (c->nr) {
	case __NR_futex:
		return call_futex(c);
	case __NR_epoll_pwait:
		return call_epoll_pwait(c);
	case __NR_epoll_wait:
		return call_epoll_wait(c);
	case __NR_poll:
		return call_poll(c);
	case __NR_rt_sigprocmask:
		return call_rt_sigprocmask(c);
	case __NR_execve:
	case __NR_execveat:
		return call_execute(c);
	case __NR_rt_sigaction:
		return call_rt_sigaction(c);
	case __NR_clock_gettime:
		return call_clock_gettime(c);
	case __NR_gettimeofday:
		return call_gettimeofday(c);
	case __NR_time:
		return call_time(c);
	case __NR_nanosleep:
		return call_nanosleep(c);
	case __NR_clock_nanosleep:
		return call_clock_nanosleep(c);
	case __NR_ppoll:
		return call_ppoll(c);
	case __NR_select:
		return call_select(c);
	case __NR_pselect6:
		return call_pselect6(c);
	case __NR_epoll_pwait2:
		return call_epoll_pwait2(c);
	case __NR_futex_waitv:
		return call_futex_waitv(c);
	case 455: /* futex_wait, newer than some headers */
		return call_futex_wait(c);
	case __NR_timer_create:
		return call_timer_create(c);
	case __NR_timer_settime:
		return call_timer_settime(c);
	case __NR_timer_gettime:
		return call_timer_gettime(c);
	case __NR_setitimer:
		return call_setitimer(c);
	case __NR_getitimer:
		return call_getitimer(c);
	case __NR_alarm:
		return call_alarm(c);
	case __NR_timerfd_create:
		return call_timerfd_create(c);
	case __NR_timerfd_settime:
		return call_timerfd_settime(c);
	case __NR_timerfd_gettime:
		return call_timerfd_gettime(c);
	case __NR_rt_sigtimedwait:
		return call_rt_sigtimedwait(c);
	case __NR_rt_sigsuspend:
		return call_rt_sigsuspend(c);
	case __NR_mq_timedsend:
	case __NR_mq_timedreceive:
		return call_mq_timed(c);
	case __NR_semtimedop:
		return call_semtimedop(c);
	case __NR_recvmmsg:
		return call_recvmmsg(c);
	case __NR_io_getevents:
		return call_io_getevents(c);
	case __NR_io_pgetevents:
		return call_io_pgetevents(c);
	case __NR_setsockopt:
		return call_setsockopt(c);
	case __NR_getsockopt:
		return call_getsockopt(c);
	case __NR_recvmsg:
		return call_recvmsg(c);
	case __NR_ioctl:
		return call_ioctl(c);
	case __NR_shmctl:
	case __NR_msgctl:
	case __NR_semctl:
		return call_ipc_stat(c);
	case __NR_open:
	case __NR_openat:
	case 437: /* openat2, newer than some headers */
		return call_open(c);
	case __NR_stat:
	case __NR_lstat:
	case __NR_fstat:
		return call_stat(c);
	case __NR_newfstatat:
		return call_newfstatat(c);
	case __NR_statx:
		return call_statx(c);
	case __NR_utimensat:
		return call_utimensat(c);
	case __NR_utimes:
	case __NR_futimesat:
		return call_utimes(c);
	case __NR_utime:
		return call_utime(c);
	case __NR_times:
		return call_times(c);
	case __NR_getrusage:
		return call_getrusage(c);
	case __NR_wait4:
		return call_wait4(c);
	case __NR_waitid:
		return call_waitid(c);
	case __NR_getrlimit:
	case __NR_setrlimit:
	case __NR_prlimit64:
		return call_rlimit(c);
	case __NR_sysinfo:
		return call_sysinfo(c);
	case __NR_adjtimex:
		return call_adjtimex(c);
	case __NR_clock_adjtime:
		return call_clock_adjtime(c);
	default:
		return -ENOSYS; /* filter.c traps nothing else */
	}
}

__attribute__((visibility("hidden"))) void on_sigsys(int sig, struct siginfo *info, struct ucontext *u)
{
	if (info->code != SYS_SECCOMP || info->err != DIORAMA_TRAP_DATA) {
		foreign_signal(sig, info, u);
		return;
	}
	struct call c = { (u64)(u32)info->syscall, { u->rdi, u->rsi, u->rdx, u->r10, u->r8, u->r9 }, u };
	/* The kernel's vDSO falls back to a call: its caller is vdso.c or clock.c, which scale the result themselves. */
	if (u->rip - STATE->given.real_vdso < STATE->given.real_vdso_len)
		u->rax = (u64)syscall(c.nr, c.a[0], c.a[1], c.a[2], c.a[3], c.a[4], c.a[5]);
	else
		u->rax = (u64)dispatch(&c);
}
