/* Threads that share a sum of work, and hold one lock for a part of it: locks mutex|spin THREADS PERCENT. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { PIECES = 20000, LOOPS = 20000 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_spinlock_t spin;
static int spins, percent;
static atomic_int done;

static void work(int loops)
{
	for (volatile int i = 0; i < loops; i++)
		;
}

static void *thread(void *unused)
{
	while (atomic_fetch_add(&done, 1) < PIECES) {
		work(LOOPS / 100 * (100 - percent));
		spins ? pthread_spin_lock(&spin) : pthread_mutex_lock(&mutex);
		work(LOOPS / 100 * percent);
		spins ? pthread_spin_unlock(&spin) : pthread_mutex_unlock(&mutex);
	}
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t threads[64];
	int count = argc == 4 ? atoi(argv[2]) : 0;
	if (count < 1 || count > 64)
		return 2;
	spins = !strcmp(argv[1], "spin");
	percent = atoi(argv[3]);
	pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE);
	for (int i = 0; i < count; i++)
		if (pthread_create(&threads[i], NULL, thread, NULL))
			return 1;
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
