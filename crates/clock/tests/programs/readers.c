/*
 * Reads the clock in eight threads as fast as it goes, for as many virtual ms as the argument says. Time must never run
 * backwards: neither in a thread, nor from one thread to another. Prints how often it was read, and by how many ns it
 * ever went back.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define THREADS 8

static _Atomic long latest, reads, back;
static long end;

static long now(int how)
{
	struct timespec t;
	if (how)
		clock_gettime(CLOCK_MONOTONIC, &t);
	else
		syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000l + t.tv_nsec;
}

static void *reader(void *unused)
{
	long read, n = 0;
	do {
		long seen = atomic_load(&latest);
		/* One in a thousand by the system call, which is scaled in another place. */
		read = now(n++ % 1000);
		if (read < seen) {
			long worst = atomic_load(&back);
			while (seen - read > worst && !atomic_compare_exchange_weak(&back, &worst, seen - read))
				;
		}
		while (read > seen && !atomic_compare_exchange_weak(&latest, &seen, read))
			;
	} while (read < end);
	atomic_fetch_add(&reads, n);
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];
	end = now(1) + atol(argc > 1 ? argv[1] : "100") * 1000000l;
	puts("ready");
	fflush(stdout);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], 0, reader, 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], 0);
	printf("%ld %ld\n", reads, back);
	return 0;
}
