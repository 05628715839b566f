/*
 * Looks, which do not wait, by every call that can look. Without an argument, one line each: "NAME QUIET TOOK READY
 * TOOK", the results added up of those at a pipe with nothing in it and at one with a byte, and the shortest, ns. With
 * one, a look at the standard input: "looking", and when it is over "RESULT TOOK SIGNALS".
 */
#define _GNU_SOURCE
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "instants.h"

/* More than it takes until a site stops trapping. */
#define OFTEN 12

static sigset_t nothing;

static int epoll_of(int fd)
{
	struct epoll_event event = { .events = EPOLLIN };
	int epoll = epoll_create1(0);
	epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
	return epoll;
}

static long by_poll(int fd)
{
	struct pollfd p = { fd, POLLIN, 0 };
	return poll(&p, 1, 0);
}

static long by_ppoll(int fd)
{
	struct pollfd p = { fd, POLLIN, 0 };
	struct timespec none = { 0, 0 };
	return ppoll(&p, 1, &none, 0);
}

static long by_ppoll_with_mask(int fd)
{
	struct pollfd p = { fd, POLLIN, 0 };
	struct timespec none = { 0, 0 };
	return ppoll(&p, 1, &none, &nothing);
}

static long by_select(int fd)
{
	struct timeval none = { 0, 0 };
	fd_set set;
	FD_ZERO(&set);
	FD_SET(fd, &set);
	long found = select(fd + 1, &set, 0, 0, &none);
	return found == !!FD_ISSET(fd, &set) ? found : -100;
}

static long by_pselect(int fd)
{
	struct timespec none = { 0, 0 };
	fd_set set;
	FD_ZERO(&set);
	FD_SET(fd, &set);
	long found = pselect(fd + 1, &set, 0, 0, &none, &nothing);
	return found == !!FD_ISSET(fd, &set) ? found : -100;
}

static long by_epoll_wait(int fd)
{
	struct epoll_event event;
	int epoll = epoll_of(fd);
	long found = epoll_wait(epoll, &event, 1, 0);
	close(epoll);
	return found;
}

static long by_epoll_pwait(int fd)
{
	struct epoll_event event;
	int epoll = epoll_of(fd);
	long found = epoll_pwait(epoll, &event, 1, 0, 0);
	close(epoll);
	return found;
}

static long by_epoll_pwait2(int fd)
{
	struct epoll_event event;
	struct timespec none = { 0, 0 };
	int epoll = epoll_of(fd);
	long found = syscall(441, epoll, &event, 1, &none, 0, 8);
	close(epoll);
	return found;
}

/* As Go's runtime does, before it goes to sleep. */
static long as_go_does(int fd)
{
	struct epoll_event event;
	int epoll = epoll_of(fd);
	long found = syscall(SYS_epoll_pwait, epoll, &event, 1, 0, 0, 0);
	close(epoll);
	return found;
}

static void several(long (*look)(int), int fd)
{
	long found = 0;
	long long shortest = 1ll << 60;
	for (int i = 0; i < OFTEN; i++) {
		long long start = now(CLOCK_MONOTONIC);
		found += look(fd);
		long long took = now(CLOCK_MONOTONIC) - start;
		shortest = took < shortest ? took : shortest;
	}
	printf(" %ld %lld", found, shortest);
}

static volatile sig_atomic_t signals;
static void count(int sig)
{
	(void)sig;
	signals++;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		long (*look)(int);
	} all[] = {
		{ "poll", by_poll },
		{ "ppoll", by_ppoll },
		{ "ppoll-with-mask", by_ppoll_with_mask },
		{ "select", by_select },
		{ "pselect", by_pselect },
		{ "epoll_wait", by_epoll_wait },
		{ "epoll_pwait", by_epoll_pwait },
		{ "epoll_pwait2", by_epoll_pwait2 },
		{ "as-go-does", as_go_does },
	};
	(void)argv;
	sigemptyset(&nothing);
	setvbuf(stdout, 0, _IOLBF, 0);
	if (argc > 1) {
		struct sigaction action = { .sa_handler = count };
		sigaction(SIGUSR1, &action, 0);
		long long start = now(CLOCK_MONOTONIC);
		puts("looking");
		long found = by_poll(0);
		printf("%ld %lld %d\n", found, now(CLOCK_MONOTONIC) - start, (int)signals);
		return 0;
	}
	int quiet[2], ready[2];
	if (pipe(quiet) || pipe(ready) || write(ready[1], "x", 1) != 1)
		return 1;
	for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
		printf("%s", all[i].name);
		several(all[i].look, quiet[0]);
		several(all[i].look, ready[0]);
		puts("");
	}
	return 0;
}
