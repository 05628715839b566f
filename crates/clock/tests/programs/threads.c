/* Fifty threads that wait on one condition with a time-out, twice; glibc's or musl's, static. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define THREADS 50

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void *wait_in_vain(void *unused)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	t.tv_nsec += 50000000;
	if (t.tv_nsec >= 1000000000) {
		t.tv_nsec -= 1000000000;
		t.tv_sec++;
	}
	pthread_mutex_lock(&mutex);
	while (pthread_cond_timedwait(&never, &mutex, &t) != ETIMEDOUT)
		;
	pthread_mutex_unlock(&mutex);
	return unused;
}

int main(void)
{
	for (int round = 0; round < 2; round++) {
		pthread_t threads[THREADS];
		double start = now();
		for (int i = 0; i < THREADS; i++)
			if (pthread_create(&threads[i], 0, wait_in_vain, 0))
				abort();
		for (int i = 0; i < THREADS; i++)
			pthread_join(threads[i], 0);
		printf("%.6f 0.05\n", now() - start);
	}
	return 0;
}
