/* A debugger in miniature: the child asks to be traced and executes. Says what it was told. */
#include <errno.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
	int status;
	pid_t pid = fork();
	if (pid == 0) {
		if (ptrace(PTRACE_TRACEME, 0, 0, 0))
			_exit(errno);
		execl("/bin/true", "true", (char *)0);
		_exit(errno);
	}
	waitpid(pid, &status, 0);
	printf("%d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
	return 0;
}
