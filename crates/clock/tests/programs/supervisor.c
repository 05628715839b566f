/*
 * A program that supervises its child by user notification: the child's filter asks about a few calls, and the parent
 * answers. Says what came of each, the same natively and dilated.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef SECCOMP_ADDFD_FLAG_SEND
#define SECCOMP_ADDFD_FLAG_SEND 2
#endif

static void say(const char *name, long result)
{
	printf("%s: %ld, %d\n", name, result, result < 0 ? errno : 0);
}

static void fail(const char *what)
{
	perror(what);
	exit(9);
}

static int filter(unsigned flags, unsigned verdict)
{
	static const int asked[] = { SYS_getppid, SYS_nanosleep, SYS_mkdir, SYS_open, SYS_fork, SYS_uname };
	enum { N = sizeof asked / sizeof *asked };
	struct sock_filter code[N + 3];
	code[0] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	for (int i = 0; i < N; i++)
		code[1 + i] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, asked[i], N - i, 0);
	code[1 + N] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	code[2 + N] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, verdict);
	struct sock_fprog program = { N + 3, code };
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}

static int error_for(int nr, int error)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { 4, code };
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}

static void hand_over(int socket, int fd)
{
	char byte = 0, room[CMSG_SPACE(sizeof fd)] = { 0 };
	struct iovec iov = { &byte, 1 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room };
	*CMSG_FIRSTHDR(&m) = (struct cmsghdr){ CMSG_LEN(sizeof fd), SOL_SOCKET, SCM_RIGHTS };
	memcpy(CMSG_DATA(CMSG_FIRSTHDR(&m)), &fd, sizeof fd);
	if (sendmsg(socket, &m, 0) != 1)
		fail("sendmsg");
}

static int take_over(int socket)
{
	int fd;
	char byte, room[CMSG_SPACE(sizeof fd)];
	struct iovec iov = { &byte, 1 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room };
	if (recvmsg(socket, &m, 0) != 1)
		fail("recvmsg");
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof fd);
	return fd;
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static long nap(long ms)
{
	struct timespec t = { 0, ms * 1000000 };
	return syscall(SYS_nanosleep, &t, 0);
}

static void *asks_in_thread(void *unused)
{
	say("in a thread", syscall(SYS_getppid));
	return unused;
}

/* The child: nobody answers after the last. */
static void supervised(char *self, int socket)
{
	int status;
	int fd = filter(SECCOMP_FILTER_FLAG_NEW_LISTENER, SECCOMP_RET_USER_NOTIF);
	if (fd < 0)
		fail("no listener");
	printf("closed on exec: %d\n", fcntl(fd, F_GETFD));
	say("a second one", filter(SECCOMP_FILTER_FLAG_NEW_LISTENER, SECCOMP_RET_USER_NOTIF));
	hand_over(socket, fd);
	close(fd);
	say("a result", syscall(SYS_getppid));
	say("an error", syscall(SYS_mkdir, "/nowhere/at/all", 0700));
	double begin = now();
	say("a sleep that goes on", nap(60));
	printf("long enough: %d\n", now() - begin >= 0.06 && now() - begin < 0.6);
	begin = now();
	say("a sleep that does not", nap(900));
	printf("short enough: %d\n", now() - begin < 0.5);
	struct stat null = { 0 };
	int given = syscall(SYS_open, "/supervised", O_RDONLY, 0);
	printf("a descriptor: %d, %d\n", given >= 0, fstat(given, &null) == 0 && S_ISCHR(null.st_mode));
	given = syscall(SYS_open, "/proc/uptime", O_RDONLY, 0);
	char text[64];
	printf("an open that goes on: %d\n", given >= 0 && read(given, text, sizeof text) > 5);
	pid_t child = syscall(SYS_fork);
	if (!child) {
		say("in a child", syscall(SYS_getppid));
		_exit(3);
	}
	int ended = child > 0 && waitpid(child, &status, 0) == child;
	printf("a fork that goes on: %d, exit %d\n", ended, WEXITSTATUS(status));
	pthread_t thread;
	if (pthread_create(&thread, 0, asks_in_thread, 0) || pthread_join(thread, 0))
		fail("a thread");
	if (error_for(SYS_uname, 42))
		fail("another filter");
	say("an error of a later filter", syscall(SYS_uname, 0));
	execl(self, self, "executed", (char *)0);
	fail("exec");
}

static void executed(void)
{
	say("after an exec", syscall(SYS_getppid));
	say("one that nobody answers", syscall(SYS_getppid));
	say("a sleep that nobody answers", nap(10));
	exit(0);
}

/* The supervisor's answer: a result, an error, or that it goes on. */
static void answer(int fd, unsigned long id, long value, int error, unsigned flags)
{
	struct seccomp_notif_resp response = { id, value, error, flags };
	if (ioctl(fd, SECCOMP_IOCTL_NOTIF_SEND, &response))
		say("the answer", -1);
}

/* The next call; how often the child is the one that asked. */
static struct seccomp_notif next(int fd, pid_t child, int *own)
{
	struct pollfd p = { fd, POLLIN, 0 };
	struct seccomp_notif notif = { 0 };
	unsigned long id;
	if (poll(&p, 1, -1) != 1 || !(p.revents & POLLIN) || ioctl(fd, SECCOMP_IOCTL_NOTIF_RECV, &notif))
		fail("receive");
	id = notif.id;
	if (ioctl(fd, SECCOMP_IOCTL_NOTIF_ID_VALID, &id))
		fail("valid");
	*own += (pid_t)notif.pid == child;
	return notif;
}

static void on_alarm(int sig)
{
	(void)sig;
}

int main(int argc, char **argv)
{
	setvbuf(stdout, 0, _IOLBF, 0);
	if (argc > 1)
		executed();
	int pair[2], own = 0, status;
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		fail("socketpair");
	pid_t child = fork();
	if (!child)
		supervised(argv[0], pair[1]);
	int fd = take_over(pair[0]);

	struct seccomp_notif notif = next(fd, child, &own);
	printf("number %d, architecture %x\n", notif.data.nr == SYS_getppid, notif.data.arch);
	struct seccomp_notif used = { .id = 1 };
	say("received into what is not empty", ioctl(fd, SECCOMP_IOCTL_NOTIF_RECV, &used));
	struct seccomp_notif_resp wrong = { notif.id, 1, 0, SECCOMP_USER_NOTIF_FLAG_CONTINUE };
	say("a result that goes on", ioctl(fd, SECCOMP_IOCTL_NOTIF_SEND, &wrong));
	wrong.flags = 8;
	say("a flag that is none", ioctl(fd, SECCOMP_IOCTL_NOTIF_SEND, &wrong));
	answer(fd, notif.id, 4242, 0, 0);
	wrong = (struct seccomp_notif_resp){ notif.id, 1, 0, 0 };
	/* The child may have taken the first, or not yet. */
	int refused = ioctl(fd, SECCOMP_IOCTL_NOTIF_SEND, &wrong) < 0 && (errno == ENOENT || errno == EINPROGRESS);
	printf("a second answer is refused: %d\n", refused);
	say("valid after that", ioctl(fd, SECCOMP_IOCTL_NOTIF_ID_VALID, &notif.id));

	notif = next(fd, child, &own);
	char path[16] = "";
	char memory[40];
	snprintf(memory, sizeof memory, "/proc/%d/mem", notif.pid);
	int mem = open(memory, O_RDONLY);
	if (pread(mem, path, 15, notif.data.args[0]) != 15)
		fail("its memory");
	printf("an argument: %s, %lld\n", path, (long long)notif.data.args[1]);
	answer(fd, notif.id, 0, -EDOM, 0);

	notif = next(fd, child, &own);
	answer(fd, notif.id, 0, 0, SECCOMP_USER_NOTIF_FLAG_CONTINUE);
	notif = next(fd, child, &own);
	answer(fd, notif.id, 7, 0, 0);

	notif = next(fd, child, &own);
	struct seccomp_notif_addfd add = { notif.id, SECCOMP_ADDFD_FLAG_SEND, open("/dev/null", O_RDONLY), 0, 0 };
	struct seccomp_notif_addfd bad = add;
	bad.srcfd = 999;
	say("a descriptor that is none", ioctl(fd, SECCOMP_IOCTL_NOTIF_ADDFD, &bad));
	bad = add;
	bad.id++;
	say("for a call that is none", ioctl(fd, SECCOMP_IOCTL_NOTIF_ADDFD, &bad));
	printf("added: %d\n", ioctl(fd, SECCOMP_IOCTL_NOTIF_ADDFD, &add) >= 0);
	notif = next(fd, child, &own);
	answer(fd, notif.id, 0, 0, SECCOMP_USER_NOTIF_FLAG_CONTINUE);

	notif = next(fd, child, &own);
	answer(fd, notif.id, 0, 0, SECCOMP_USER_NOTIF_FLAG_CONTINUE);
	int others = 0;
	notif = next(fd, child, &others);
	answer(fd, notif.id, 4343, 0, 0);
	notif = next(fd, child, &others);
	answer(fd, notif.id, 4444, 0, 0);
	printf("by the child itself %d, by others %d\n", own, 2 - others);
	notif = next(fd, child, &own);
	answer(fd, notif.id, 4545, 0, 0);

	/* It stands in a call, and this end is closed. */
	notif = next(fd, child, &own);
	struct sigaction action = { .sa_handler = on_alarm };
	sigaction(SIGALRM, &action, 0);
	alarm(1);
	struct seccomp_notif none = { 0 };
	say("received when there is none", ioctl(fd, SECCOMP_IOCTL_NOTIF_RECV, &none));
	close(fd);
	if (waitpid(child, &status, 0) != child)
		fail("waitpid");
	printf("exit %d\n", WEXITSTATUS(status));

	/* One whose processes are gone. */
	child = fork();
	if (!child) {
		fd = filter(SECCOMP_FILTER_FLAG_NEW_LISTENER, SECCOMP_RET_USER_NOTIF);
		hand_over(pair[1], fd);
		_exit(5);
	}
	fd = take_over(pair[0]);
	waitpid(child, &status, 0);
	struct pollfd p = { fd, POLLIN, 0 };
	int polled = poll(&p, 1, 10000);
	printf("hung up: %d, %d\n", polled, !!(p.revents & POLLHUP));
	say("received after that", ioctl(fd, SECCOMP_IOCTL_NOTIF_RECV, &none));
	return 0;
}
