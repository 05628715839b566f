/* Answers for its child's calls as its tracer. Says what came of it, which is not the same natively and dilated. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long install(unsigned verdict)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_nanosleep, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, verdict),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof code / sizeof *code, code };
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}

static void call(const char *name, long nr)
{
	struct timespec t = { 0, 1000 };
	long result = nr == SYS_nanosleep ? syscall(nr, &t, 0) : syscall(nr);
	printf("%s: %s, %d\n", name, result < 0 ? "fails" : "works", result < 0 ? errno : 0);
	fflush(stdout);
}

int main(void)
{
	int ready[2], status;
	char byte = 0;
	if (pipe(ready))
		return 1;
	pid_t child = fork();
	if (!child) {
		/* Until it is traced. */
		if (read(ready[0], &byte, 1) != 1 || install(SECCOMP_RET_TRACE | 5))
			_exit(9);
		call("traced getppid", SYS_getppid);
		call("traced nanosleep", SYS_nanosleep);
		_exit(0);
	}
	if (ptrace(PTRACE_SEIZE, child, 0, PTRACE_O_TRACESECCOMP) || write(ready[1], &byte, 1) != 1)
		return 2;
	while (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
		unsigned long message = 0;
		if (status >> 8 == (SIGTRAP | PTRACE_EVENT_SECCOMP << 8)) {
			ptrace(PTRACE_GETEVENTMSG, child, 0, &message);
			printf("the tracer is told %lu\n", message);
			fflush(stdout);
		}
		ptrace(PTRACE_CONT, child, 0, status >> 16 ? 0 : WSTOPSIG(status));
	}
	printf("exit %d\n", WEXITSTATUS(status));
	return 0;
}
