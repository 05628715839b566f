/* The SIGSYS handler: every trapped call arrives here, in the thread that made it, but for what sites.c spares. */
#include "dilation.h"

#define SYS_SECCOMP 1

/* The exact bytes by which gdb and libgcc's unwinder know a signal frame. */
__asm__(".section .text.trap, \"ax\", @progbits\n"
	".globl restorer\n"
	".hidden restorer\n"
	".type restorer, @function\n"
	"	nop\n" /* unwinders look up the return address minus 1 */
	"restorer:\n"
	"	mov $15, %rax\n"
	"	syscall\n"
	".text\n");

__attribute__((visibility("hidden"))) long dispatch(struct call *c)
{
	switch (c->nr) {
#define CALL(number, handler, ...) \
	case number: \
		return handler(c);
#include "calls.h"
#undef CALL
	default:
		return -ENOSYS; /* nothing else traps */
	}
}

__attribute__((visibility("hidden"), section(".text.trap")))
void on_sigsys(int sig, struct siginfo *info, struct ucontext *u)
{
	if (info->code == SYS_SECCOMP && info->err == DIORAMA_STRICT_DATA)
		end_strictly();
	struct call c = { (u64)(u32)info->syscall, { u->rdi, u->rsi, u->rdx, u->r10, u->r8, u->r9 }, u };
	if (info->code == SYS_SECCOMP && info->err && *(u64 *)DIORAMA_LISTENED == (u64)info->err) {
		u->rax = (u64)call_supervised(&c, (u32)info->err);
		return;
	}
	if (info->code != SYS_SECCOMP || info->err != DIORAMA_TRAP_DATA) {
		foreign_signal(sig, info, u);
		return;
	}
	long result;
	if (STATE->judged && refused(&c, &result)) {
		u->rax = (u64)result;
		return;
	}
	/* The kernel's vDSO falls back to a call: its caller is vdso.c or clock.c, which scale the result themselves. */
	if (u->rip - STATE->given.real_vdso < STATE->given.real_vdso_len)
		u->rax = (u64)as_is(&c);
	else if (STATE->machine) {
		struct answered it;
		begin_answer(&it, &c);
		u->rax = (u64)dispatch(&c);
		end_answer(&it);
	} else {
		count_trap(&c);
		u->rax = (u64)dispatch(&c);
	}
}
