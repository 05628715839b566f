// How fast the time-stamp counter runs by the clock, and whether the kernel's stamp of a packet lies between its
// sending and its receipt.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <x86intrin.h>
#include "../../../clock/tests/programs/instants.h"

int main(void)
{
	long long start = now(CLOCK_MONOTONIC);
	unsigned long long first = __rdtsc();
	nanosleep(&(struct timespec){ .tv_nsec = 200000000 }, NULL);
	double ticks = (double)(__rdtsc() - first);
	printf("ticks per ns %.4f\n", ticks / (double)(now(CLOCK_MONOTONIC) - start));

	int socket_ = socket(AF_INET, SOCK_DGRAM, 0), on = 1;
	struct sockaddr_in own = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof own;
	bind(socket_, (struct sockaddr *)&own, sizeof own);
	getsockname(socket_, (struct sockaddr *)&own, &length);
	setsockopt(socket_, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on);
	nanosleep(&(struct timespec){ .tv_nsec = 50000000 }, NULL);
	long long before = now(CLOCK_REALTIME);
	if (sendto(socket_, "x", 1, 0, (struct sockaddr *)&own, sizeof own) != 1)
		return perror("sendto"), 1;
	char data[8], control[128];
	struct msghdr message = { .msg_iov = &(struct iovec){ data, sizeof data }, .msg_iovlen = 1,
				  .msg_control = control, .msg_controllen = sizeof control };
	if (recvmsg(socket_, &message, 0) != 1)
		return perror("recvmsg"), 1;
	long long after = now(CLOCK_REALTIME);
	struct cmsghdr *stamp = CMSG_FIRSTHDR(&message);
	if (!stamp)
		return puts("no stamp"), 1;
	struct timespec t;
	memcpy(&t, CMSG_DATA(stamp), sizeof t);
	long long at = ns(t);
	if (at >= before && at <= after)
		puts("stamped in between");
	else
		printf("sent %lld, stamped %lld, received %lld\n", before, at, after);
	return 0;
}
