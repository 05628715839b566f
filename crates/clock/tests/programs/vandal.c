/* Tries to write to the clock page, the end of a mapping of 64 KiB. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>

#define PAGE ((volatile char *)0x55050000f000)

int main(void)
{
	char path[64];
	setvbuf(stdout, 0, _IOLBF, 0);
	printf("mprotect %d\n", mprotect((void *)PAGE, 4096, PROT_READ | PROT_WRITE) ? errno : 0);
	snprintf(path, sizeof path, "/proc/self/map_files/%lx-%lx", (long)PAGE - 0xf000, (long)PAGE + 4096);
	int fd = open(path, O_RDWR);
	void *again = fd < 0 ? MAP_FAILED : mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	printf("reopened %d\n", again == MAP_FAILED);
	PAGE[0] = 1;
	return 0;
}
