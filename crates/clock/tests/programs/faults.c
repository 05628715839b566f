/* Bad arguments: what every trapped call answers. The output must be the same natively and dilated. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void say(const char *name, long result)
{
	printf("%s %s %d\n", name, result == -1 ? "fails" : "passes", result == -1 ? errno : 0);
}
#define TRY(...) say(#__VA_ARGS__, syscall(__VA_ARGS__))

int main(void)
{
	char *pages = mmap(0, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mprotect(pages + 4096, 4096, PROT_NONE);
	mprotect(pages + 8192, 4096, PROT_READ);
	/* Nothing there; half there; readable only; beyond user space; not canonical. */
	void *bad[] = { (void *)8, pages + 4096, pages + 4096 - 8, (void *)-4096, (void *)0x8000000000000000, pages + 8192 };
	struct timespec t = { 0, 1000000 }, wrong = { 0, 2000000000 }, negative = { -1, 0 };
	uint32_t word = 0;
	int fd = timerfd_create(CLOCK_MONOTONIC, 0), s = socket(AF_UNIX, SOCK_STREAM, 0);
	struct itimerspec when = { { 0, 0 }, { 100, 0 } };
	timer_t timer;
	syscall(SYS_timer_create, CLOCK_MONOTONIC, 0, &timer);
	int id = *(int *)&timer;
	int tcp = socket(AF_INET, SOCK_STREAM, 0), stamped = socket(AF_INET, SOCK_DGRAM, 0), epoll = epoll_create1(0);
	int shm = shmget(IPC_PRIVATE, 4096, 0600), sem = semget(IPC_PRIVATE, 1, 0600);
	char name[40];
	snprintf(name, sizeof name, "/diorama-faults-%d", getpid());
	mqd_t queue = mq_open(name, O_CREAT | O_RDWR, 0600, 0);
	mq_unlink(name);
	unsigned long aio = 0;
	syscall(SYS_io_setup, 1, &aio);
	setsockopt(stamped, SOL_SOCKET, SO_TIMESTAMP, &(int){ 1 }, sizeof(int));
	for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
		void *p = bad[i];
		printf("-- %u\n", i);
		TRY(SYS_clock_gettime, CLOCK_MONOTONIC, p);
		TRY(SYS_clock_gettime, CLOCK_PROCESS_CPUTIME_ID, p);
		TRY(SYS_gettimeofday, p, 0);
		TRY(SYS_getrusage, 0, p);
		TRY(SYS_times, p);
		TRY(SYS_sysinfo, p);
		TRY(SYS_timerfd_gettime, fd, p);
		TRY(SYS_timerfd_settime, fd, 0, &when, p);
		TRY(SYS_timer_gettime, id, p);
		TRY(SYS_getitimer, ITIMER_REAL, p);
		TRY(SYS_rt_sigprocmask, SIG_BLOCK, &(uint64_t){ 0 }, p, 8);
		TRY(SYS_rt_sigaction, SIGUSR1, 0, p, 8);
		TRY(SYS_adjtimex, p);
		TRY(SYS_clock_adjtime, CLOCK_REALTIME, p);
		TRY(SYS_stat, "/", p);
		TRY(SYS_fstat, 0, p);
		TRY(SYS_newfstatat, AT_FDCWD, "/", p, 0);
		TRY(SYS_statx, AT_FDCWD, "/", 0, STATX_ALL, p);
		TRY(SYS_wait4, -1, 0, WNOHANG, p);
		TRY(SYS_getrlimit, RLIMIT_CPU, p);
		TRY(SYS_prlimit64, 0, RLIMIT_CPU, 0, p);
		TRY(SYS_timer_settime, id, 0, &when, p);
		TRY(SYS_setitimer, ITIMER_VIRTUAL, &(struct itimerval){ { 0, 0 }, { 0, 0 } }, p);
		TRY(SYS_timer_create, CLOCK_MONOTONIC, 0, p);
		TRY(SYS_shmctl, shm, IPC_STAT, p);
		TRY(SYS_getsockopt, tcp, IPPROTO_TCP, TCP_INFO, p, &(socklen_t){ 104 });
		TRY(SYS_getsockopt, s, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){ 0, 0 }, p);
		if (i == 5)
			break; /* readable: what follows only reads */
		TRY(SYS_time, p);
		TRY(SYS_nanosleep, p, 0);
		TRY(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, p, 0);
		TRY(SYS_ppoll, 0, 0, p, 0, 8);
		TRY(SYS_ppoll, 0, 0, &t, p, 8);
		TRY(SYS_select, 0, 0, 0, 0, p);
		TRY(SYS_pselect6, 0, 0, 0, 0, p, 0);
		TRY(SYS_pselect6, 0, 0, 0, 0, &t, p);
		TRY(SYS_futex, &word, FUTEX_WAIT, 0, p, 0, 0);
		TRY(SYS_futex, p, FUTEX_WAIT, 0, &t, 0, 0);
		TRY(SYS_rt_sigtimedwait, &(uint64_t){ 0 }, 0, p, 8);
		TRY(SYS_timerfd_settime, fd, 0, p, 0);
		TRY(SYS_timer_settime, id, 0, p, 0);
		TRY(SYS_setitimer, ITIMER_REAL, p, 0);
		TRY(SYS_rt_sigprocmask, SIG_BLOCK, p, 0, 8);
		TRY(SYS_rt_sigaction, SIGUSR1, p, 0, 8);
		if (i != 2) /* the eight bytes of a mask are there, and it would wait for ever */
			TRY(SYS_rt_sigsuspend, p, 8);
		TRY(SYS_setsockopt, s, SOL_SOCKET, SO_RCVTIMEO, p, 16);
		TRY(SYS_getsockopt, s, SOL_SOCKET, SO_RCVTIMEO, p, &(socklen_t){ 16 });
		TRY(SYS_setsockopt, s, SOL_SOCKET, SO_LINGER, p, 8);
		TRY(SYS_setsockopt, s, SOL_SOCKET, SO_TIMESTAMP, p, 4);
		TRY(SYS_setsockopt, tcp, IPPROTO_TCP, TCP_KEEPIDLE, p, 4);
		TRY(SYS_recvmsg, stamped, p, MSG_DONTWAIT);
		TRY(SYS_recvmmsg, stamped, p, 1, MSG_DONTWAIT, 0);
		TRY(SYS_recvmmsg, stamped, &(char[64]){ 0 }, 1, MSG_DONTWAIT, p);
		TRY(SYS_ioctl, stamped, 0x8906 /* SIOCGSTAMP */, p);
		TRY(SYS_open, p, O_RDONLY);
		TRY(SYS_openat, AT_FDCWD, p, O_RDONLY);
		TRY(437 /* openat2 */, AT_FDCWD, "/", p, 24);
		TRY(SYS_stat, p, &(struct stat){ 0 });
		TRY(SYS_utimensat, AT_FDCWD, "/nonexistent", p, 0);
		TRY(SYS_utimes, "/nonexistent", p);
		TRY(SYS_utime, "/nonexistent", p);
		TRY(SYS_setrlimit, RLIMIT_CPU, p);
		TRY(SYS_prlimit64, 0, RLIMIT_CPU, p, 0);
		TRY(SYS_timer_create, CLOCK_MONOTONIC, p, &timer);
		TRY(SYS_semtimedop, sem, &(struct sembuf){ 0, -1, 0 }, 1, p);
		TRY(SYS_semtimedop, sem, p, 1, &t);
		TRY(SYS_mq_timedreceive, queue, pages, 8192, 0, p);
		TRY(SYS_io_getevents, aio, 1, 1, pages, p);
		TRY(SYS_epoll_pwait, epoll, pages, 1, 1, p, 8);
		TRY(SYS_epoll_pwait2, epoll, pages, 1, p, 0, 8);
		TRY(SYS_epoll_wait, epoll, p, 1, 1);
		TRY(449 /* futex_waitv */, p, 1, 0, &t, CLOCK_MONOTONIC);
		TRY(449 /* futex_waitv */, pages, 1, 0, p, CLOCK_MONOTONIC);
	}
	puts("-- values");
	TRY(SYS_nanosleep, &wrong, 0);
	TRY(SYS_nanosleep, &negative, 0);
	TRY(SYS_clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, &wrong, 0);
	TRY(SYS_clock_nanosleep, CLOCK_MONOTONIC_RAW, 0, &t, 0);
	TRY(SYS_clock_nanosleep, CLOCK_THREAD_CPUTIME_ID, 0, &t, 0);
	TRY(SYS_clock_nanosleep, 99, 0, &t, 0);
	TRY(SYS_clock_gettime, 99, &t);
	TRY(SYS_clock_gettime, 10, &t);
	TRY(SYS_ppoll, 0, 0, &wrong, 0, 8);
	TRY(SYS_ppoll, 0, 0, 0, &(uint64_t){ 0 }, 4);
	TRY(SYS_select, 0, 0, 0, 0, &(struct timeval){ -1, 0 });
	TRY(SYS_select, -1, 0, 0, 0, &(struct timeval){ 0, 1000 });
	TRY(SYS_select, 0, 0, 0, 0, &(struct timeval){ 0, 0 });
	TRY(SYS_futex, &word, FUTEX_WAIT, 0, &wrong, 0, 0);
	TRY(SYS_futex, &word, FUTEX_WAIT, 1, &t, 0, 0);
	TRY(SYS_futex, (char *)&word + 1, FUTEX_WAIT, 0, &t, 0, 0);
	TRY(SYS_futex, &word, FUTEX_LOCK_PI | FUTEX_CLOCK_REALTIME, 0, &t, 0, 0);
	TRY(SYS_epoll_wait, 0, 0, 0, 5);
	TRY(SYS_epoll_pwait2, 0, pages, 1, &wrong, 0, 8);
	TRY(SYS_timerfd_create, 99, 0);
	TRY(SYS_timerfd_create, CLOCK_REALTIME, -1);
	TRY(SYS_timerfd_settime, s, 0, &when, 0);
	TRY(SYS_timerfd_settime, fd, 0, &(struct itimerspec){ { 0, 0 }, { 0, -1 } }, 0);
	TRY(SYS_timerfd_settime, 999, TFD_TIMER_ABSTIME, &when, 0);
	TRY(SYS_timer_settime, 12345, 0, &when, 0);
	TRY(SYS_timer_settime, id, 0, 0, 0);
	TRY(SYS_setitimer, 7, &(struct itimerval){ { 0, 0 }, { 0, 0 } }, 0);
	TRY(SYS_setitimer, ITIMER_REAL, &(struct itimerval){ { 0, 0 }, { 0, 1000000 } }, 0);
	TRY(SYS_rt_sigprocmask, 9, &(uint64_t){ 0 }, 0, 8);
	TRY(SYS_rt_sigprocmask, SIG_BLOCK, &(uint64_t){ 0 }, 0, 4);
	TRY(SYS_rt_sigaction, SIGKILL, &(struct { uint64_t a[4]; }){ { 0 } }, 0, 8);
	TRY(SYS_rt_sigaction, SIGSYS, 0, 0, 4);
	TRY(SYS_getrusage, 99, pages);
	TRY(SYS_setsockopt, s, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){ 0, 1000000 }, 16);
	TRY(SYS_setsockopt, s, SOL_SOCKET, SO_RCVTIMEO, &t, 4);
	TRY(SYS_setsockopt, 999, SOL_SOCKET, SO_RCVTIMEO, &t, 16);
	TRY(SYS_mq_timedreceive, 999, pages, 8, 0, &t);
	TRY(SYS_semtimedop, -1, pages, 1, &t);
	TRY(SYS_recvmmsg, 999, pages, 1, 0, &t);
	shmctl(shm, IPC_RMID, 0);
	semctl(sem, 0, IPC_RMID);
	return 0;
}
