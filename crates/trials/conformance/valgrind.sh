# program: valgrind (memcheck, helgrind)
# packages: valgrind gcc libc6-dev
cat >wait.c <<'C'
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}
static void *sleeps(void *us) { usleep((long)us); return 0; }
int main(int argc, char **argv)
{
	pthread_t thread;
	double s;
	/* The first time everything is translated. */
	for (long i = 0; i < 2; i++) {
		s = now();
		pthread_create(&thread, 0, sleeps, (void *)(i ? 500000l : 1000l));
		pthread_join(thread, 0);
	}
	printf("500 %.0f a thread, %s\n", now() - s, argc > 1 ? argv[1] : "");
	return 0;
}
C
gcc -O1 -pthread -o wait wait.c
echo -
for tool in memcheck helgrind; do valgrind -q --log-file=/dev/null --tool=$tool ./wait $tool; done
