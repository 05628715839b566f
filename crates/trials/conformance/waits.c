/* Waits of 200 ms, as glibc's and musl's programs make them. Prints "NOMINAL TOOK NAME", in ms. */
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

static long now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

#define WAIT(name, call)                                         \
	do {                                                     \
		long before = now();                             \
		call;                                            \
		printf("200 %ld %s\n", now() - before, name);    \
	} while (0)

static void *thread(void *p)
{
	usleep(200000);
	return p;
}

int main(void)
{
	struct timespec d;
	struct epoll_event e;
	sem_t s;
	pthread_t t;
	WAIT("usleep", usleep(200000));
	WAIT("poll", poll(0, 0, 200));
	WAIT("epoll_wait", epoll_wait(epoll_create1(0), &e, 1, 200));
	sem_init(&s, 0, 0);
	clock_gettime(CLOCK_REALTIME, &d);
	d.tv_nsec += 200000000;
	if (d.tv_nsec >= 1000000000) {
		d.tv_sec++;
		d.tv_nsec -= 1000000000;
	}
	WAIT("sem_timedwait", sem_timedwait(&s, &d));
	WAIT("thread", (pthread_create(&t, 0, thread, 0), pthread_join(t, 0)));
	return 0;
}
