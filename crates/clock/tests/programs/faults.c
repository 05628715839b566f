/*
 * Bad arguments: what every trapped call answers. The output must be the same natively and dilated.
 *
 * A line names the call as it stands here and the pointer that takes the place of `p`. What a pointer can be read as is
 * zeros. No call may wait, or do harm, where it is content with the pointer. With the argument "dates" it says what
 * setting the date is answered, without the right to.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/futex.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/msg.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/timerfd.h>
#include <sys/timex.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef SYS_openat2
#define SYS_openat2 437
#endif
#ifndef SYS_epoll_pwait2
#define SYS_epoll_pwait2 441
#endif
#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif
#ifndef SYS_futex_wait
#define SYS_futex_wait 455
#endif

static char *pages;
static const char *at = "valid";

/* Times and descriptors are not the same twice. */
static void say(const char *name, long result)
{
	int varies = !strncmp(name, "SYS_time,", 9) || !strncmp(name, "SYS_times,", 10) || !strncmp(name, "SYS_open", 8) ||
		     !strncmp(name, "SYS_timerfd_create,", 19) || !strncmp(name, "SYS_adjtimex", 12) ||
		     !strncmp(name, "SYS_clock_adjtime", 17) || !strncmp(name, "SYS_wait4", 9);
	if (result == -1)
		printf("%s: %s fails %d\n", at, name, errno);
	else if (varies)
		printf("%s: %s passes\n", at, name);
	else
		printf("%s: %s is %ld\n", at, name, result);
	if (result > 2 && (!strncmp(name, "SYS_open", 8) || !strncmp(name, "SYS_timerfd_create,", 19)))
		close((int)result);
}
#define TRY(...) say(#__VA_ARGS__, syscall(__VA_ARGS__))

static void ignore(int sig) { (void)sig; }

/* A child that has ended and waits to be collected. */
static void zombie(void)
{
	siginfo_t info;
	pid_t pid = fork();
	if (pid == 0)
		_exit(0);
	waitid(P_PID, pid, &info, WEXITED | WNOWAIT);
}

/* Without the right to set the date. */
static void dates(void *p)
{
	TRY(SYS_clock_settime, CLOCK_REALTIME, p);
	TRY(SYS_clock_settime, CLOCK_MONOTONIC, p);
	TRY(SYS_clock_settime, CLOCK_PROCESS_CPUTIME_ID, p);
	TRY(SYS_clock_settime, CLOCK_TAI, p);
	TRY(SYS_clock_settime, CLOCK_BOOTTIME_ALARM, p);
	TRY(SYS_clock_settime, -6 /* this process's CPU time */, p);
	TRY(SYS_clock_settime, 99, p);
	TRY(SYS_clock_settime, -5 /* descriptor 0 */, p);
	TRY(SYS_settimeofday, p, 0);
	TRY(SYS_settimeofday, 0, p);
}

static struct itimerspec when = { { 0, 0 }, { 100, 0 } };
static struct timespec t = { 0, 1000000 };
static uint32_t word;
static int fd, s, tcp, stamped, epoll, shm, sem, msg, ends[2], id;
static mqd_t queue;
static unsigned long aio;

static void objects(void)
{
	char name[40];
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t len = sizeof a;
	fd = timerfd_create(CLOCK_MONOTONIC, 0);
	s = socket(AF_UNIX, SOCK_STREAM, 0);
	tcp = socket(AF_INET, SOCK_STREAM, 0);
	stamped = socket(AF_INET, SOCK_DGRAM, 0);
	epoll = epoll_create1(0);
	shm = shmget(IPC_PRIVATE, 4096, 0600);
	sem = semget(IPC_PRIVATE, 1, 0600);
	msg = msgget(IPC_PRIVATE, 0600);
	snprintf(name, sizeof name, "/diorama-faults-%d", getpid());
	queue = mq_open(name, O_CREAT | O_RDWR | O_NONBLOCK, 0600, 0);
	mq_unlink(name);
	syscall(SYS_timer_create, CLOCK_MONOTONIC, 0, &id);
	syscall(SYS_io_setup, 1, &aio);
	/* A packet that has been received, so that there is a time of one; and from now on recvmsg traps. */
	setsockopt(stamped, SOL_SOCKET, SO_TIMESTAMP, &(int){ 1 }, sizeof(int));
	if (bind(stamped, (void *)&a, len) || getsockname(stamped, (void *)&a, &len) ||
	    sendto(stamped, "x", 1, 0, (void *)&a, len) != 1 || recv(stamped, name, 1, 0) != 1)
		perror("loopback");
	/* A call that waits for a descriptor or a signal finds one. */
	if (pipe(ends) || write(ends[1], "x", 1) != 1)
		perror("pipe");
	epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &(struct epoll_event){ .events = EPOLLIN });
	signal(SIGUSR1, ignore);
	sigset_t usr1;
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	sigprocmask(SIG_BLOCK, &usr1, 0);
}

/* The descriptor that is ready, for select. */
static fd_set *set(void)
{
	static fd_set one;
	FD_ZERO(&one);
	FD_SET(ends[0], &one);
	return &one;
}

/* Calls in which the kernel writes to `p`, or reads it and does no harm by that. */
static void with_any(void *p)
{
	struct pollfd ready = { ends[0], POLLIN, 0 };
	struct epoll_event event;
	TRY(SYS_clock_gettime, CLOCK_MONOTONIC, p);
	TRY(SYS_clock_gettime, CLOCK_REALTIME_ALARM, p);
	TRY(SYS_clock_gettime, CLOCK_PROCESS_CPUTIME_ID, p);
	TRY(SYS_clock_gettime, 99, p);
	TRY(SYS_gettimeofday, p, 0);
	TRY(SYS_gettimeofday, 0, p);
	TRY(SYS_time, p);
	TRY(SYS_getrusage, 0, p);
	TRY(SYS_getrusage, 99, p);
	TRY(SYS_times, p);
	TRY(SYS_sysinfo, p);
	TRY(SYS_adjtimex, p);
	TRY(SYS_clock_adjtime, CLOCK_REALTIME, p);
	TRY(SYS_clock_adjtime, CLOCK_MONOTONIC, p);
	TRY(SYS_clock_adjtime, 99, p);
	TRY(SYS_timerfd_gettime, fd, p);
	TRY(SYS_timerfd_gettime, s, p);
	TRY(SYS_timerfd_settime, fd, 0, &when, p);
	TRY(SYS_timer_gettime, id, p);
	TRY(SYS_timer_gettime, 12345, p);
	TRY(SYS_timer_settime, id, 0, &when, p);
	TRY(SYS_timer_create, CLOCK_MONOTONIC, 0, p);
	TRY(SYS_timer_create, CLOCK_BOOTTIME_ALARM, 0, p);
	TRY(SYS_getitimer, ITIMER_REAL, p);
	TRY(SYS_getitimer, ITIMER_PROF, p);
	TRY(SYS_getitimer, 7, p);
	TRY(SYS_setitimer, ITIMER_VIRTUAL, &(struct itimerval){ { 0, 0 }, { 0, 0 } }, p);
	TRY(SYS_rt_sigprocmask, SIG_BLOCK, &(uint64_t){ 0 }, p, 8);
	TRY(SYS_rt_sigprocmask, SIG_BLOCK, p, 0, 8);
	TRY(SYS_rt_sigprocmask, 9, p, 0, 8);
	TRY(SYS_rt_sigaction, SIGUSR2, 0, p, 8);
	TRY(SYS_rt_sigaction, SIGSYS, 0, p, 8);
	TRY(SYS_rt_sigaction, SIGUSR2, p, 0, 8);
	TRY(SYS_rt_sigaction, 99, p, 0, 8);
	raise(SIGUSR1);
	TRY(SYS_rt_sigsuspend, p, 8);
	raise(SIGUSR1);
	TRY(SYS_rt_sigtimedwait, p, 0, &(struct timespec){ 0, 0 }, 8);
	TRY(SYS_rt_sigtimedwait, &(uint64_t){ 1 << (SIGUSR1 - 1) }, p, &(struct timespec){ 0, 0 }, 8);
	raise(SIGUSR1);
	TRY(SYS_rt_sigtimedwait, &(uint64_t){ 1 << (SIGUSR1 - 1) }, 0, p, 8);
	TRY(SYS_stat, "/", p);
	TRY(SYS_stat, p, &(struct stat){ 0 });
	TRY(SYS_lstat, "/", p);
	TRY(SYS_lstat, p, &(struct stat){ 0 });
	TRY(SYS_fstat, ends[0], p);
	TRY(SYS_newfstatat, AT_FDCWD, "/", p, 0);
	TRY(SYS_newfstatat, AT_FDCWD, p, &(struct stat){ 0 }, 0);
	TRY(SYS_statx, AT_FDCWD, "/", 0, STATX_ALL, p);
	TRY(SYS_statx, AT_FDCWD, p, 0, STATX_ALL, &(struct statx){ 0 });
	zombie();
	TRY(SYS_wait4, -1, 0, 0, p);
	TRY(SYS_wait4, -1, 0, WNOHANG, p);
	zombie();
	TRY(SYS_waitid, P_ALL, 0, 0, WEXITED, p);
	TRY(SYS_waitid, P_ALL, 0, 0, WEXITED | WNOHANG, p);
	zombie();
	TRY(SYS_waitid, P_ALL, 0, p, WEXITED, &(struct rusage){ 0 });
	/* And as a tracer waits. */
	TRY(SYS_ptrace, PTRACE_SEIZE, -1, 0, p);
	TRY(SYS_ptrace, PTRACE_ATTACH, getpid(), 0, 0);
	TRY(SYS_ptrace, PTRACE_CONT, getppid(), 0, 0);
	TRY(SYS_wait4, -1, p, 0, p);
	TRY(SYS_waitid, P_ALL, 0, p, WEXITED | WNOHANG, p);
	TRY(SYS_waitid, P_ALL, 0, p, 0, 0);
	TRY(SYS_getrlimit, RLIMIT_CPU, p);
	TRY(SYS_prlimit64, 0, RLIMIT_CPU, 0, p);
	TRY(SYS_prlimit64, -1, RLIMIT_CPU, 0, p);
	TRY(SYS_shmctl, shm, IPC_STAT, p);
	TRY(SYS_msgctl, msg, IPC_STAT, p);
	TRY(SYS_semctl, sem, 0, IPC_STAT, p);
	TRY(SYS_getsockopt, tcp, IPPROTO_TCP, TCP_INFO, p, &(socklen_t){ 104 });
	TRY(SYS_getsockopt, tcp, IPPROTO_TCP, TCP_KEEPIDLE, p, &(socklen_t){ 4 });
	TRY(SYS_getsockopt, s, SOL_SOCKET, SO_RCVTIMEO, p, &(socklen_t){ 16 });
	TRY(SYS_getsockopt, s, SOL_SOCKET, SO_LINGER, p, &(socklen_t){ 8 });
	TRY(SYS_getsockopt, s, SOL_SOCKET, SO_MAX_PACING_RATE, p, &(socklen_t){ 8 });
	TRY(SYS_getsockopt, s, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){ 0, 0 }, p);
	TRY(SYS_getsockopt, 999, SOL_SOCKET, SO_RCVTIMEO, p, p);
	TRY(SYS_setsockopt, s, SOL_SOCKET, SO_RCVTIMEO, p, 16);
	TRY(SYS_setsockopt, s, SOL_SOCKET, SO_RCVTIMEO, p, 4);
	TRY(SYS_setsockopt, s, SOL_SOCKET, SO_LINGER, p, 8);
	TRY(SYS_setsockopt, s, SOL_SOCKET, SO_LINGER, p, 4);
	TRY(SYS_setsockopt, s, SOL_SOCKET, SO_MAX_PACING_RATE, p, 8);
	TRY(SYS_setsockopt, s, SOL_SOCKET, SO_TIMESTAMP, p, 4);
	TRY(SYS_setsockopt, s, SOL_SOCKET, SO_TIMESTAMP, p, 0);
	TRY(SYS_setsockopt, tcp, IPPROTO_TCP, TCP_KEEPIDLE, p, 4);
	TRY(SYS_setsockopt, tcp, IPPROTO_TCP, TCP_USER_TIMEOUT, p, 4);
	TRY(SYS_setsockopt, 999, IPPROTO_TCP, TCP_USER_TIMEOUT, p, 4);
	TRY(SYS_recvmsg, stamped, p, MSG_DONTWAIT);
	TRY(SYS_recvmmsg, stamped, p, 1, MSG_DONTWAIT, 0);
	TRY(SYS_recvmmsg, stamped, &(char[64]){ 0 }, 1, MSG_DONTWAIT, p);
	/* Of netlink sockets all that carries messages traps. */
	int netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK, 0);
	TRY(SYS_socket, AF_NETLINK, SOCK_RAW, 99);
	TRY(SYS_sendto, netlink, p, 20, 0, 0, 0);
	TRY(SYS_sendto, netlink, &(char[20]){ 20 }, 20, 0, p, 12);
	TRY(SYS_sendmsg, netlink, p, 0);
	TRY(SYS_sendmsg, netlink, &(struct msghdr){ .msg_iov = p, .msg_iovlen = 1 }, 0);
	TRY(SYS_sendmsg, netlink, &(struct msghdr){ .msg_iov = &(struct iovec){ p, 20 }, .msg_iovlen = 1 }, 0);
	TRY(SYS_write, netlink, p, 20);
	TRY(SYS_writev, netlink, p, 1);
	TRY(SYS_writev, netlink, &(struct iovec){ p, 20 }, 1);
	TRY(SYS_recvfrom, netlink, p, 20, 0, 0, 0);
	TRY(SYS_read, netlink, p, 20);
	TRY(SYS_readv, netlink, p, 1);
	TRY(SYS_readv, netlink, &(struct iovec){ p, 20 }, 1);
	close(netlink);
	/* Where no file can be made, whatever the name. */
	int here = open(".", O_RDONLY);
	if (chdir("/proc"))
		perror("/proc");
	TRY(SYS_creat, p, 0600);
	if (fchdir(here))
		perror("back");
	close(here);
	TRY(SYS_ioctl, stamped, 0x8906 /* SIOCGSTAMP */, p);
	TRY(SYS_ioctl, stamped, 0x8907 /* SIOCGSTAMPNS */, p);
	TRY(SYS_ioctl, 999, 0x8906 /* SIOCGSTAMP */, p);
	TRY(SYS_open, p, O_RDONLY);
	TRY(SYS_openat, AT_FDCWD, p, O_RDONLY);
	TRY(SYS_openat2, AT_FDCWD, p, &(uint64_t[3]){ 0 }, 24);
	TRY(SYS_openat2, AT_FDCWD, "/", p, 24);
	TRY(SYS_openat2, AT_FDCWD, "/", p, 16);
	TRY(SYS_utimensat, AT_FDCWD, "/nonexistent", p, 0);
	TRY(SYS_utimensat, AT_FDCWD, p, &(struct timespec[2]){ { 1, 0 }, { 1, 0 } }, 0);
	TRY(SYS_futimesat, AT_FDCWD, "/nonexistent", p);
	TRY(SYS_futimesat, AT_FDCWD, p, &(struct timeval[2]){ { 1, 0 }, { 1, 0 } });
	TRY(SYS_utimes, "/nonexistent", p);
	TRY(SYS_utimes, p, &(struct timeval[2]){ { 1, 0 }, { 1, 0 } });
	TRY(SYS_utime, "/nonexistent", p);
	TRY(SYS_utime, p, &(long[2]){ 1, 1 });
	TRY(SYS_prlimit64, -1, RLIMIT_CPU, p, 0);
	TRY(SYS_timer_create, CLOCK_MONOTONIC, p, &(int){ 0 });
	TRY(SYS_semtimedop, sem, &(struct sembuf){ 0, 0, 0 }, 1, p);
	TRY(SYS_semtimedop, sem, p, 1, &t);
	TRY(SYS_semtimedop, -1, p, 1, p);
	TRY(SYS_mq_timedreceive, queue, pages, 8192, 0, p);
	TRY(SYS_mq_timedreceive, queue, p, 8192, 0, &t);
	TRY(SYS_mq_timedsend, queue, pages, 9000, 0, p);
	TRY(SYS_mq_timedsend, 999, pages, 1, 0, p);
	TRY(SYS_io_getevents, aio, 0, 1, pages, p);
	TRY(SYS_io_getevents, 0, 0, 1, pages, p);
	TRY(SYS_io_pgetevents, aio, 0, 1, pages, p, 0);
	TRY(SYS_io_pgetevents, aio, 0, 1, pages, &t, p);
	TRY(SYS_epoll_wait, epoll, p, 1, 1);
	TRY(SYS_epoll_wait, 999, p, 1, 1);
	TRY(SYS_epoll_pwait, epoll, &event, 1, 1, p, 8);
	TRY(SYS_epoll_pwait, epoll, p, 1, 1, &(uint64_t){ 0 }, 8);
	TRY(SYS_epoll_pwait2, epoll, &event, 1, p, 0, 8);
	TRY(SYS_epoll_pwait2, epoll, &event, 1, &t, p, 8);
	TRY(SYS_epoll_pwait2, epoll, p, 1, &t, 0, 8);
	TRY(SYS_poll, p, 1, 1);
	TRY(SYS_ppoll, &ready, 1, p, 0, 8);
	TRY(SYS_ppoll, &ready, 1, &(struct timespec){ 0, 1000000 }, p, 8);
	TRY(SYS_ppoll, p, 1, &(struct timespec){ 0, 1000000 }, 0, 8);
	TRY(SYS_select, ends[0] + 1, set(), 0, 0, p);
	TRY(SYS_select, ends[0] + 1, p, 0, set(), &(struct timeval){ 0, 1000 });
	TRY(SYS_pselect6, ends[0] + 1, set(), 0, 0, p, 0);
	TRY(SYS_pselect6, ends[0] + 1, set(), 0, 0, &(struct timespec){ 0, 1000000 }, p);
	TRY(SYS_pselect6, ends[0] + 1, p, 0, set(), &(struct timespec){ 0, 1000000 }, 0);
	TRY(SYS_futex, &word, FUTEX_WAIT, 1, p, 0, 0);
	TRY(SYS_futex, &word, FUTEX_WAIT_BITSET, 1, p, 0, 1);
	TRY(SYS_futex, p, FUTEX_WAIT, 1, &t, 0, 0);
	TRY(SYS_futex, p, FUTEX_LOCK_PI, 0, &t, 0, 0);
	TRY(SYS_futex, &word, FUTEX_WAIT_REQUEUE_PI, 1, &t, p, 0);
	TRY(SYS_futex_waitv, p, 1, 0, &t, CLOCK_MONOTONIC);
	TRY(SYS_futex_waitv, &(uint64_t[3]){ 1, (uint64_t)&word, 2 }, 1, 0, p, CLOCK_MONOTONIC);
	TRY(SYS_futex_waitv, &(uint64_t[3]){ 1, (uint64_t)&word, 2 }, 1, 0, p, 99);
	TRY(SYS_futex_wait, &word, 1, 0xffffffff, 2, p, CLOCK_MONOTONIC);
	TRY(SYS_futex_wait, p, 1, 0xffffffff, 2, &t, CLOCK_MONOTONIC);
	TRY(SYS_timerfd_settime, fd, 0, p, 0);
	TRY(SYS_timerfd_settime, fd, TFD_TIMER_ABSTIME, p, 0);
	TRY(SYS_timerfd_settime, s, 0, p, 0);
	TRY(SYS_timer_settime, id, 0, p, 0);
	TRY(SYS_timer_settime, 12345, 0, p, 0);
	TRY(SYS_setitimer, ITIMER_REAL, p, 0);
	TRY(SYS_setitimer, ITIMER_PROF, p, 0);
	TRY(SYS_setitimer, 7, p, 0);
	TRY(SYS_nanosleep, p, 0);
	TRY(SYS_nanosleep, &(struct timespec){ 0, 1 }, p);
	TRY(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, p, 0);
	TRY(SYS_clock_nanosleep, CLOCK_REALTIME, TIMER_ABSTIME, p, 0);
	TRY(SYS_clock_nanosleep, CLOCK_REALTIME_ALARM, 0, p, 0);
	TRY(SYS_clock_nanosleep, CLOCK_THREAD_CPUTIME_ID, 0, p, 0);
	TRY(SYS_clock_nanosleep, 99, 0, p, 0);
	TRY(SYS_execve, p, 0, 0);
	TRY(SYS_execve, "/nonexistent", p, 0);
	TRY(SYS_execveat, AT_FDCWD, p, 0, 0, 0);
}

/* Calls that take effect if `p` can be read. */
static void if_unreadable(void *p)
{
	TRY(SYS_setrlimit, RLIMIT_CPU, p);
	TRY(SYS_prlimit64, 0, RLIMIT_CPU, p, 0);
	TRY(SYS_rt_sigaction, SIGSYS, p, 0, 8);
	TRY(SYS_clone3, p, 64);
	TRY(SYS_clone3, p, 88);
	TRY(SYS_clone3, p, 8);
	TRY(SYS_clone3, p, 4097);
	TRY(SYS_clone, 0x800 /* CLONE_SIGHAND, which needs CLONE_VM */, 0, 0, 0, 0);
	TRY(SYS_getcpu, p, 0, 0);
	TRY(SYS_getcpu, 0, p, 0);
	TRY(SYS_sched_getaffinity, 0, 0, p);
	TRY(SYS_sched_getaffinity, 0, 1024, p);
	TRY(SYS_sched_getaffinity, 1 << 28, 1024, p);
	TRY(SYS_sched_setaffinity, 0, 8, p);
	TRY(SYS_sched_setaffinity, 0, 8, &(long){ 0 });
}

static void values(void)
{
	struct timespec wrong = { 0, 2000000000 }, negative = { -1, 0 };
	at = "valid";
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
	TRY(SYS_alarm, 0);
	/* Near the image, where it is in a dilated process. */
	TRY(SYS_munmap, 0x550500000001, 4096);
	TRY(SYS_munmap, 0x550500000000, 0);
	TRY(SYS_munmap, 0x550520000000, 4096);
	TRY(SYS_prctl, 22 /* PR_SET_SECCOMP */, 99, 0);
	TRY(SYS_prctl, 59 /* PR_SET_SYSCALL_USER_DISPATCH */, 0, 0, 0, 0);
	TRY(SYS_seccomp, 0 /* SECCOMP_SET_MODE_STRICT */, 1, 0);
	TRY(SYS_seccomp, 0 /* SECCOMP_SET_MODE_STRICT */, 0, 1);
	TRY(SYS_timerfd_create, CLOCK_REALTIME_ALARM, 0);
	TRY(SYS_timerfd_create, CLOCK_BOOTTIME_ALARM, 0);
	TRY(SYS_timer_create, CLOCK_REALTIME_ALARM, 0, &(int){ 0 });
	TRY(SYS_clock_getres, CLOCK_REALTIME_ALARM, &(struct timespec){ 0, 0 });
	TRY(SYS_clock_gettime, CLOCK_BOOTTIME_ALARM, &(struct timespec){ 0, 0 });
	TRY(SYS_clock_nanosleep, CLOCK_BOOTTIME_ALARM, 0, &t, 0);
	TRY(SYS_clock_nanosleep, CLOCK_REALTIME_ALARM, TIMER_ABSTIME, &t, 0);
	/* By the vDSO, too. */
	say("clock_gettime(CLOCK_BOOTTIME_ALARM)", clock_gettime(CLOCK_BOOTTIME_ALARM, &(struct timespec){ 0, 0 }));
	say("clock_gettime(99)", clock_gettime(99, &(struct timespec){ 0, 0 }));
	shmctl(shm, IPC_RMID, 0);
	semctl(sem, 0, IPC_RMID);
	msgctl(msg, IPC_RMID, 0);
}

/*
 * The pointers, and what they are called: before, in and beyond an unmapped page, on a page that can only be read,
 * where no process has memory.
 */
#define FEW 9
static struct pointer {
	const char *name;
	void *p;
} bad[FEW + 16];
static int count;

static void pointers(void)
{
	static const char *const small[FEW] = { "0", "1", "2", "3", "4", "5", "6", "7", "8" };
	static const struct {
		const char *name;
		int back;
	} ends[] = { { "end-1", 1 }, { "end-3", 3 }, { "end-4", 4 }, { "end-7", 7 }, { "end-8", 8 },
		     { "end-12", 12 }, { "end-15", 15 } };
	for (count = 0; count < FEW; count++)
		bad[count] = (struct pointer){ small[count], (void *)(long)count };
	for (unsigned i = 0; i < sizeof ends / sizeof *ends; i++)
		bad[count++] = (struct pointer){ ends[i].name, pages + 4096 - ends[i].back };
	bad[count++] = (struct pointer){ "unmapped", pages + 4096 };
	bad[count++] = (struct pointer){ "kernel", (void *)-4096 };
	bad[count++] = (struct pointer){ "last", (void *)-1 };
	bad[count++] = (struct pointer){ "not-canonical", (void *)0x8000000000000000 };
	bad[count++] = (struct pointer){ "read-only", pages + 8192 };
}

int main(int argc, char **argv)
{
	pages = mmap(0, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mprotect(pages + 4096, 4096, PROT_NONE);
	mprotect(pages + 8192, 4096, PROT_READ);
	pointers();
	if (argc > 1 && !strcmp(argv[1], "dates")) {
		struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
		struct __user_cap_data_struct data[2];
		if (syscall(SYS_capget, &header, data))
			return 1;
		data[0].effective &= ~(1u << CAP_SYS_TIME);
		if (syscall(SYS_capset, &header, data))
			return 1;
		for (int i = 0; i < count; i++) {
			at = bad[i].name;
			dates(bad[i].p);
		}
		at = "valid";
		dates(&(struct timespec){ 1700000000, 0 });
		dates(&(struct timespec){ -1, 0 });
		dates(&(struct timespec){ 0, 1000000 });
		dates(&(struct timespec){ 0, 1000000000 });
		dates(&(struct timespec){ 0, -1 });
		dates(&(struct timespec){ 8277292035, 0 });
		dates(&(struct timespec){ 8277292036, 0 });
		/* adjtime's flag without its mate is wrong; with it, and without either, the date would be set. */
		TRY(SYS_adjtimex, &(struct timex){ .modes = 0x8000 });
		TRY(SYS_adjtimex, &(struct timex){ .modes = 0x8001 });
		TRY(SYS_adjtimex, &(struct timex){ .modes = ADJ_OFFSET });
		TRY(SYS_settimeofday, 0, 0);
		return 0;
	}
	objects();
	for (int i = 0; i < count; i++) {
		at = bad[i].name;
		with_any(bad[i].p);
		if (strcmp(at, "read-only") && (strcmp(at, "end-8")))
			if_unreadable(bad[i].p);
	}
	values();
	return 0;
}

