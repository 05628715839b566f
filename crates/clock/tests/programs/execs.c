/*
 * Twenty threads; eight of them execute this program again at once, and with an argument the first thread too. Four
 * more try to execute what does not exist, again and again.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char *name;

static void *idle(void *unused)
{
	for (;;)
		usleep(1000);
	return unused;
}

static pthread_barrier_t start;

static void *fail(void *unused)
{
	char *argv[] = { "/nonexistent", 0 };
	for (;;)
		execv(argv[0], argv);
	return unused;
}

static void *execute(void *unused)
{
	char *argv[] = { name, "again", 0 };
	pthread_barrier_wait(&start);
	execv(name, argv);
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t t;
	if (argc > 1 && strcmp(argv[1], "again") == 0) {
		puts("executed");
		return 0;
	}
	name = argv[0];
	for (int i = 0; i < 8; i++)
		pthread_create(&t, 0, idle, 0);
	int leader = argc > 1 && argv[1][0];
	pthread_barrier_init(&start, 0, 8 + leader);
	for (int i = 0; i < 4; i++)
		pthread_create(&t, 0, fail, 0);
	for (int i = 0; i < 8; i++)
		pthread_create(&t, 0, execute, 0);
	if (leader)
		execute(0);
	pause();
	return 1;
}
