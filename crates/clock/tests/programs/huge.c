/*
 * Times of hundreds of years, and the most that there are: none of them has come when a signal does. The output must be
 * the same natively and dilated.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t rings;
static void ring(int sig) { rings += sig == SIGALRM; }

/* Rings again and again, as one may come too soon. */
static void every(long us)
{
	setitimer(ITIMER_REAL, &(struct itimerval){ { 0, us }, { 0, us } }, 0);
}

static void told(const char *name, long result)
{
	printf("%s %ld %d, rung: %d\n", name, result, result == -1 ? errno : 0, rings > 0);
	rings = 0;
}
#define TRY(name, expression) \
	do { \
		rings = 0; \
		errno = 0; \
		told(name, (long)(expression)); \
	} while (0)

int main(void)
{
	static const long seconds[] = { 10000000000, 9223372036, 9223372037, LONG_MAX / 1000, LONG_MAX };
	struct sigaction action = { .sa_handler = ring };
	sigaction(SIGALRM, &action, 0);
	sigset_t usr1, alarms;
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	sigprocmask(SIG_BLOCK, &usr1, 0);
	sigemptyset(&alarms);
	sigaddset(&alarms, SIGALRM);
	int epoll = epoll_create1(0);
	struct epoll_event e;
	uint32_t word = 0;
	every(3000);
	for (unsigned i = 0; i < sizeof seconds / sizeof *seconds; i++) {
		struct timespec t = { seconds[i], 999999999 }, c;
		struct timeval tv = { seconds[i], 999999 };
		printf("-- %ld\n", seconds[i]);
		c = t;
		TRY("nanosleep", syscall(SYS_nanosleep, &c, 0));
		TRY("clock_nanosleep", syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, &t, 0));
		TRY("clock_nanosleep-date", syscall(SYS_clock_nanosleep, CLOCK_REALTIME, TIMER_ABSTIME, &t, 0));
		c = t;
		TRY("ppoll", syscall(SYS_ppoll, 0, 0, &c, 0, 8));
		c = t;
		TRY("pselect6", syscall(SYS_pselect6, 0, 0, 0, 0, &c, 0));
		TRY("select", syscall(SYS_select, 0, 0, 0, 0, &tv));
		TRY("epoll_pwait2", syscall(441, epoll, &e, 1, &t, 0, 8));
		TRY("futex", syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &t, 0, 0));
		TRY("futex-bitset", syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, 0, &t, 0, -1));
		TRY("futex-date", syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE | FUTEX_CLOCK_REALTIME, 0, &t, 0, -1));
		TRY("sigtimedwait", syscall(SYS_rt_sigtimedwait, &usr1, 0, &t, 8));
		sigprocmask(SIG_BLOCK, &alarms, 0);
		for (int how = 0; how < 6; how++) {
			static const clockid_t clocks[] = { CLOCK_MONOTONIC, CLOCK_REALTIME };
			struct itimerspec when = { { how / 4 ? seconds[i] : 0, 0 }, t }, left = { { 0, 0 }, { 0, 0 } };
			int fd = timerfd_create(clocks[how % 2], 0);
			int set = timerfd_settime(fd, how & 2 ? TFD_TIMER_ABSTIME : 0, &when, 0);
			int got = timerfd_gettime(fd, &left);
			struct pollfd p = { fd, POLLIN, 0 };
			printf("timerfd %d: %d %d %d, %d\n", how, set, got, left.it_value.tv_sec > 1000, poll(&p, 1, 0));
			close(fd);
			timer_t id;
			struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
			set = timer_create(clocks[how % 2], &event, &id) || timer_settime(id, how & 2 ? TIMER_ABSTIME : 0, &when, 0);
			got = timer_gettime(id, &left);
			sigset_t pending;
			sigpending(&pending);
			printf("timer %d: %d %d %d, %d\n", how, set, got, left.it_value.tv_sec > 1000, sigismember(&pending, SIGUSR1));
			timer_delete(id);
		}
		sigprocmask(SIG_UNBLOCK, &alarms, 0);
	}
	TRY("poll", poll(0, 0, INT_MAX));
	TRY("epoll_wait", epoll_wait(epoll, &e, 1, INT_MAX));
	every(0);
	return 0;
}
