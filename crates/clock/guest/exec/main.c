/* Entry, and the way from argv to a dilated command. */
#include "exec.h"

#define PR_SET_NO_NEW_PRIVS 38
#define SOL_SOCKET 1
#define SCM_RIGHTS 1
#define MSG_NOSIGNAL 0x4000
#define PATH_ROOM 4096
#define USAGE "dilate-exec [--wait N] [--slice NS] [--looks] [--fd N | --native] -- COMMAND [ARG...]"

__asm__(".text\n"
	".globl _start\n"
	"_start:\n"
	"	mov %rsp, %rdi\n"
	"	and $-16, %rsp\n"
	"	call start\n");

static __attribute__((noreturn)) void quit(int code)
{
	for (;;)
		syscall(__NR_exit_group, code);
}

static __attribute__((noreturn)) void fail(const char *what, long error)
{
	say("diorama: ");
	say(what);
	if (error) {
		say(" (error ");
		say_number((u64)-error);
		say(")");
	}
	say("\n");
	quit(EXIT_OWN);
}

/* Sends `fd` to the injector over `socket`. */
static long hand_over(i32 socket, i32 fd)
{
	u8 byte = 0;
	struct {
		void *base;
		u64 len;
	} iov = { &byte, 1 };
	struct {
		u64 len;
		i32 level, type, fd, pad;
	} control = { 20, SOL_SOCKET, SCM_RIGHTS, fd, 0 };
	struct {
		void *name;
		u32 name_len, pad;
		void *iov;
		u64 iov_len;
		void *control;
		u64 control_len;
		u64 flags;
	} message = { 0, 0, 0, &iov, 1, &control, sizeof control, 0 };
	return syscall(__NR_sendmsg, socket, &message, MSG_NOSIGNAL);
}

static const char *variable(char **envp, const char *name)
{
	u64 n = length(name);
	for (; *envp; envp++) {
		u64 i = 0;
		while (i < n && (*envp)[i] == name[i])
			i++;
		if (i == n && (*envp)[n] == '=')
			return *envp + n + 1;
	}
	return 0;
}

/* As execvp does, apart from handing files without #! to a shell. Returns the error that says most. */
static long execute(char **argv, char **envp)
{
	bool has_slash = false;
	for (const char *s = argv[0]; *s; s++)
		has_slash |= *s == '/';
	if (has_slash)
		return syscall(__NR_execve, argv[0], argv, envp, 0, 0, DIORAMA_EXECUTE);
	if (!argv[0][0])
		return -ENOENT;
	const char *path = variable(envp, "PATH");
	if (!path)
		path = "/usr/local/bin:/bin:/usr/bin";
	long worst = -ENOENT;
	u64 n = length(argv[0]);
	for (;;) {
		char room[PATH_ROOM];
		u64 dir = 0;
		while (path[dir] && path[dir] != ':')
			dir++;
		if (dir + n + 2 <= sizeof room) {
			copy(room, path, dir);
			u64 at = dir;
			if (dir)
				room[at++] = '/';
			copy(room + at, argv[0], n + 1);
			long error = syscall(__NR_execve, room, argv, envp, 0, 0, DIORAMA_EXECUTE);
			if (error != -ENOENT && error != -ENOTDIR) {
				worst = error;
				if (error != -EACCES)
					return worst;
			}
		}
		path += dir;
		if (!*path++)
			return worst;
	}
}

/* Waits for a byte from descriptor `fd`. If its other end is closed before, nobody is left to run anything for. */
static void await_start(i32 fd)
{
	u8 byte;
	long got;
	do
		got = syscall(__NR_read, fd, &byte, 1);
	while (got == -EINTR);
	if (got < 0)
		fail("the descriptor of --wait cannot be read", got);
	if (got == 0)
		quit(EXIT_OWN);
	syscall(__NR_close, fd);
}

/*
 * From now on the thread and its descendants ask the kernel for timeslices of this length. Before Linux 6.12 there are
 * none of a task's own, and this changes nothing.
 */
static void ask_for_slices(u64 ns)
{
	struct {
		u32 size, policy;
		u64 flags;
		i32 nice;
		u32 priority;
		u64 runtime, deadline, period;
	} attributes = { sizeof attributes, 0 /* SCHED_OTHER */, 0, 0, 0, ns, 0, 0 };
	syscall(__NR_sched_setattr, 0, &attributes, 0);
}

/* `looks`: the command lives by the clock of a node, which may be ahead of the run's (poll.c). */
static void dilate(i32 socket, bool looks, u64 *auxv)
{
	/* The filter of a second dilation would be one of the program's, and could have a listener. */
	if (is_dilated(auxv))
		fail("this process is under dilation already", 0);
	long error = syscall(__NR_prctl, PR_SET_NO_NEW_PRIVS, 1);
	if (error)
		fail("no_new_privs cannot be set", error);
	long listener = install_filter(looks);
	if (listener == -EBUSY)
		fail("this process is under another supervisor's seccomp listener already", 0);
	if (listener < 0)
		fail("the kernel refuses the seccomp filter; it must be Linux 5.19 or later, with CONFIG_SECCOMP_FILTER", listener);
	error = hand_over(socket, (i32)listener);
	if (error < 0)
		fail("the descriptor (3, or that of --fd) leads to no injector", error);
	syscall(__NR_close, listener);
	syscall(__NR_close, socket);
}

static __attribute__((noreturn)) void command(char **argv, char **envp)
{
	long error = execute(argv, envp);
	say("diorama: ");
	say(argv[0]);
	if (error == -ENOENT || error == -ENOTDIR) {
		say(": command not found\n");
		quit(EXIT_NOT_FOUND);
	}
	if (error == -ENOSYS) {
		say(": diorama has ended, so nothing can be started\n");
		quit(EXIT_OWN);
	}
	say(error == -EACCES ? ": permission denied" : ": cannot be executed");
	say(" (error ");
	say_number((u64)-error);
	say(")\n");
	quit(EXIT_CANNOT_EXECUTE);
}

__attribute__((used, noreturn)) void start(u64 *stack)
{
	char **argv = (char **)(stack + 1);
	char **envp = argv + stack[0] + 1;
	u64 *auxv = (u64 *)envp;
	while (*auxv++)
		;
	if (stack[0] == 2 && same(argv[1], "--probe"))
		quit(probe(auxv));
	if (stack[0] == 4 && same(argv[1], "--measure"))
		quit(measure(argv + 2, envp, auxv));
	i32 socket = DIORAMA_SOCKET, gate = -1;
	bool looks = false;
	for (char **at = argv + 1; stack[0] && *at; at++) {
		if (same(*at, "--native")) {
			socket = -1;
		} else if (same(*at, "--looks")) {
			looks = true;
		} else if (same(*at, "--") && at[1]) {
			if (gate >= 0)
				await_start(gate);
			if (socket >= 0)
				dilate(socket, looks, auxv);
			command(at + 1, envp);
		} else if (same(*at, "--fd") && at[1]) {
			socket = (i32)parse(*++at);
		} else if (same(*at, "--slice") && at[1]) {
			ask_for_slices(parse(*++at));
		} else if (same(*at, "--wait") && at[1]) {
			gate = (i32)parse(*++at);
		} else {
			break;
		}
	}
	fail("usage: " USAGE, 0);
}
