# program: qemu-user (x86-64 on x86-64)
# packages: qemu-user gcc libc6-dev
cat >wait.c <<'C'
#include <poll.h>
#include <stdio.h>
#include <time.h>
static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}
int main(void)
{
	struct timespec t = { 0, 300000000 };
	double s = now();
	nanosleep(&t, 0);
	printf("300 %.0f nanosleep\n", now() - s);
	s = now();
	poll(0, 0, 200);
	printf("200 %.0f poll\n", now() - s);
	return 0;
}
C
gcc -O1 -static -o wait-static wait.c && gcc -O1 -o wait wait.c
echo -
qemu-x86_64 ./wait-static
qemu-x86_64 ./wait
