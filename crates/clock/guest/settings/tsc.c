/*
 * rdtsc and rdtscp, where they are asked to be dilated: PR_SET_TSC makes them fault, and the SIGSEGV handler here
 * answers them from the virtual clock. All other SIGSEGVs go to the program's own handler (signals.c).
 *
 * The kernel's vDSO reads the counter too, and would fault: init.c makes us ask the kernel by a system call instead.
 */
#include "../dilation.h"

#define SI_KERNEL 0x80
#define GENERAL_PROTECTION 13

/* It counts as many cycles a virtual second as the processor's does in a real one. */
static u64 counter(void)
{
	return (u64)(((unsigned __int128)virtual_now() * STATE->given.tsc_cycles) >> 32);
}

/* The length of the instruction at `rip`, if it is one of the two. */
static u64 reads_counter(u64 rip, bool *also_cpu)
{
	u8 code[3];
	if (!read_user(code, rip, 2) || code[0] != 0x0f)
		return 0;
	*also_cpu = code[1] == 0x01;
	if (!*also_cpu)
		return code[1] == 0x31 ? 2 : 0;
	return read_user(code, rip, 3) && code[2] == 0xf9 ? 3 : 0;
}

__attribute__((visibility("hidden"))) void on_sigsegv(int sig, struct siginfo *info, struct ucontext *u)
{
	bool also_cpu;
	u64 length;
	if (info->code != SI_KERNEL || u->trapno != GENERAL_PROTECTION || !(length = reads_counter(u->rip, &also_cpu))) {
		foreign_signal(sig, info, u);
		return;
	}
	u64 now = counter();
	u->rax = (u32)now;
	u->rdx = now >> 32;
	if (also_cpu) {
		u32 cpu = 0, node = 0;
		syscall(__NR_getcpu, &cpu, &node, 0);
		u->rcx = node << 12 | cpu;
	}
	u->rip += length;
}
