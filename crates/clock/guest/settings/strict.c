/*
 * SECCOMP_MODE_STRICT: read, write, exit and rt_sigreturn, or death. The kernel refuses it to who has a filter, as
 * every dilated process has. So it is a filter here, too, which ends everything else with SIGKILL, by way of the
 * handler, as a filter's own death would be by SIGSYS.
 */
#include "../dilation.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>

long be_strict(const struct call *c)
{
	static const struct sock_filter code[] = {
		{ BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, arch) },
		{ BPF_JMP | BPF_JEQ | BPF_K, 0, 11, AUDIT_ARCH_X86_64 },
		{ BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr) },
		{ BPF_JMP | BPF_JEQ | BPF_K, 8, 0, __NR_read },
		{ BPF_JMP | BPF_JEQ | BPF_K, 7, 0, __NR_write },
		{ BPF_JMP | BPF_JEQ | BPF_K, 6, 0, __NR_exit },
		{ BPF_JMP | BPF_JEQ | BPF_K, 5, 0, __NR_rt_sigreturn },
		/* A call that end_strictly needs. */
		{ BPF_JMP | BPF_JEQ | BPF_K, 2, 0, __NR_getpid },
		{ BPF_JMP | BPF_JEQ | BPF_K, 1, 0, __NR_gettid },
		{ BPF_JMP | BPF_JEQ | BPF_K, 0, 3, __NR_tgkill },
		{ BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, instruction_pointer) + 4 },
		{ BPF_JMP | BPF_JEQ | BPF_K, 0, 1, DIORAMA_ADDRESS_HIGH },
		{ BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW },
		{ BPF_RET | BPF_K, 0, 0, SECCOMP_RET_TRAP | DIORAMA_STRICT_DATA },
	};
	struct sock_fprog program = { sizeof code / sizeof *code, (struct sock_filter *)code };
	if (c->nr == __NR_seccomp && ((u32)c->a[1] || c->a[2]))
		return -EINVAL;
	STATE->sites_closed = STATE->sandboxed = true;
	return syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, &program);
}

/* The offender alone, if it is not the thread by whose end the process's is told. */
void end_strictly(void)
{
	i32 process = (i32)syscall(__NR_getpid), thread = (i32)syscall(__NR_gettid);
	if (thread != process)
		syscall(__NR_exit, SIGKILL);
	syscall(__NR_tgkill, process, thread, SIGKILL);
}
