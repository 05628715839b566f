/*
 * When packets came and when System V IPC objects were used must be dates of this program's own clock. Prints what is
 * not.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/net_tstamp.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000ll
/* The host's date is disciplined, and the program's is not. */
#define SLACK MS

static long long now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static void nap(long long ns)
{
	nanosleep(&(struct timespec){ 0, ns }, 0);
}

static void between(const char *name, long long before, long long stamp, long long after)
{
	if (stamp < before - SLACK || stamp > after + SLACK)
		printf("%s: %lld us after the sending, %lld us before its end\n", name, (stamp - before) / 1000,
		       (after - stamp) / 1000);
}

static int from, to;

static long long stamp_in(struct msghdr *m)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		struct timespec t;
		memcpy(&t, CMSG_DATA(c), sizeof t);
		if (c->cmsg_level == SOL_SOCKET && (c->cmsg_type == SO_TIMESTAMPNS || c->cmsg_type == SO_TIMESTAMPING))
			return t.tv_sec * 1000000000ll + t.tv_nsec;
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_TIMESTAMP)
			return t.tv_sec * 1000000000ll + t.tv_nsec * 1000;
	}
	return -1;
}

static void receive(const char *name, int many)
{
	char byte, control[256];
	struct iovec iov = { &byte, 1 };
	struct mmsghdr m = { { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
			       .msg_controllen = sizeof control }, 0 };
	long long before = now();
	if (send(from, "x", 1, 0) != 1)
		perror("send");
	long long after = now();
	nap(20 * MS);
	struct timespec long_time = { 5, 0 };
	int got = many == 0 ? recvmsg(to, &m.msg_hdr, 0) == 1 : recvmmsg(to, &m, 1, 0, many == 2 ? &long_time : 0) == 1;
	if (!got)
		perror(name);
	between(name, before, stamp_in(&m.msg_hdr), after);
}

static void *other_thread(void *unused)
{
	nap(5 * MS); /* it was there before the option */
	receive("another thread", 0);
	return unused;
}

static void set(int option, int value)
{
	if (setsockopt(to, SOL_SOCKET, option, &value, sizeof value))
		perror("setsockopt");
}

static void second(const char *name, long long before, time_t stamp, int may_be_never)
{
	if (may_be_never && stamp == 0)
		return;
	if (stamp < before / 1000000000 - 1 || stamp > now() / 1000000000)
		printf("%s: %lld s ago\n", name, now() / 1000000000 - (long long)stamp);
}

int main(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t len = sizeof address;
	to = socket(AF_INET, SOCK_DGRAM, 0);
	from = socket(AF_INET, SOCK_DGRAM, 0);
	if (bind(to, (void *)&address, len) || getsockname(to, (void *)&address, &len) || connect(from, (void *)&address, len))
		perror("socket");

	struct timespec t;
	long long before = now();
	if (ioctl(to, SIOCGSTAMPNS_OLD, &t) == 0 || errno != ENOENT) /* this asks for stamps */
		printf("a stamp of no packet\n");
	nap(20 * MS); /* the kernel sees to it in a moment */
	before = now();
	char byte;
	long r = send(from, "x", 1, 0);
	long long after = now();
	nap(20 * MS);
	r += recv(to, &byte, 1, 0);
	if (r != 2 || ioctl(to, SIOCGSTAMPNS_OLD, &t))
		perror("SIOCGSTAMPNS");
	between("SIOCGSTAMPNS", before, t.tv_sec * 1000000000ll + t.tv_nsec, after);
	if (ioctl(to, SIOCGSTAMP_OLD, &t))
		perror("SIOCGSTAMP");
	between("SIOCGSTAMP", before, t.tv_sec * 1000000000ll + t.tv_nsec * 1000, after);

	pthread_t thread;
	pthread_create(&thread, 0, other_thread, 0);
	set(SO_TIMESTAMP, 1);
	pthread_join(thread, 0);
	receive("SO_TIMESTAMP", 0);
	receive("SO_TIMESTAMP, recvmmsg", 1);
	receive("SO_TIMESTAMP, recvmmsg with a time-out", 2);
	set(SO_TIMESTAMP, 0);
	set(SO_TIMESTAMPNS, 1);
	receive("SO_TIMESTAMPNS", 0);
	set(SO_TIMESTAMPNS, 0);
	set(SO_TIMESTAMPING, SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE);
	receive("SO_TIMESTAMPING", 0);

	before = now();
	struct shmid_ds shm;
	int id = shmget(IPC_PRIVATE, 4096, 0600);
	void *at = shmat(id, 0, 0);
	shmctl(id, IPC_STAT, &shm);
	second("shm_ctime", before, shm.shm_ctime, 0);
	second("shm_atime", before, shm.shm_atime, 0);
	second("shm_dtime", before, shm.shm_dtime, 1);
	shmdt(at);
	shmctl(id, IPC_RMID, 0);
	struct semid_ds sem;
	id = semget(IPC_PRIVATE, 1, 0600);
	semop(id, &(struct sembuf){ 0, 1, 0 }, 1);
	semctl(id, 0, IPC_STAT, &sem);
	second("sem_ctime", before, sem.sem_ctime, 0);
	second("sem_otime", before, sem.sem_otime, 0);
	semctl(id, 0, IPC_RMID);
	struct msqid_ds msg;
	struct {
		long type;
		char text;
	} message = { 1, 'x' };
	id = msgget(IPC_PRIVATE, 0600);
	msgsnd(id, &message, 1, 0);
	msgctl(id, IPC_STAT, &msg);
	second("msg_ctime", before, msg.msg_ctime, 0);
	second("msg_stime", before, msg.msg_stime, 0);
	second("msg_rtime", before, msg.msg_rtime, 1);
	msgctl(id, IPC_RMID, 0);
	return 0;
}
