/* Where the vDSO is, and how large a signal stack must be, by each way to the auxiliary vector: a line each. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <unistd.h>

#ifndef PR_GET_AUXV
#define PR_GET_AUXV 0x41555856
#endif
#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif

static unsigned long of(const unsigned long *vector, long bytes, unsigned long key)
{
	for (long i = 0; i + 1 < bytes / (long)sizeof *vector && vector[i]; i += 2)
		if (vector[i] == key)
			return vector[i + 1];
	return 0;
}

static void tell(const char *way, const unsigned long *vector, long bytes)
{
	printf("%s %lx %lu\n", way, of(vector, bytes, AT_SYSINFO_EHDR), of(vector, bytes, AT_MINSIGSTKSZ));
}

static long file(const char *path, void *to, size_t room)
{
	int fd = open(path, O_RDONLY);
	long n = fd < 0 ? -1 : read(fd, to, room);
	if (fd >= 0)
		close(fd);
	return n;
}

int main(void)
{
	unsigned long vector[256];
	printf("libc %lx %lu\n", getauxval(AT_SYSINFO_EHDR), getauxval(AT_MINSIGSTKSZ));
	tell("file", vector, file("/proc/self/auxv", vector, sizeof vector));
	tell("thread", vector, file("/proc/thread-self/auxv", vector, sizeof vector));
	/* Since Linux 6.4. It says how long it is, however little there is room for. */
	long bytes = prctl(PR_GET_AUXV, vector, sizeof vector, 0, 0);
	if (bytes > 0) {
		tell("prctl", vector, bytes);
		memset(vector, 0, sizeof vector);
		printf("short %d %lx\n", prctl(PR_GET_AUXV, vector, 16, 0, 0) == bytes, vector[2]);
		printf("nowhere %d\n", prctl(PR_GET_AUXV, 1, sizeof vector, 0, 0));
	}
	return 0;
}
