/*
 * The first code of ours in a new program, at the end of its vDSO. The image is not there yet: get the memfd, map it,
 * go on in the image. The injector writes this a word at a time: so it is short.
 *
 * The descriptor comes from the call that the injector has put into the registers, which is openat2 of the memfd's name
 * where it has one, and else the same as is made if that fails: asking the injector, with what came of the last try in
 * r8 (layout.h).
 *
 * At entry: ebp = number of the first call, rsi, rdx, r10, r8 = its arguments, rdi = DIORAMA_IMAGE (to openat2 nothing,
 * for the name is absolute), r9 = r15 = 0, r12 = struct parameters, r13 = dilation_entry, r14 = mmap's flags, rbx = the
 * memfd's cookie.
 */
#include <asm/unistd.h>
#include "layout.h"
	.text
	.globl _start
_start:
	mov %ebp, %eax
	syscall
	mov %eax, %r8d			/* dilation_entry closes it */
	mov $DIORAMA_MEMFD_SIZE, %esi
	push $5				/* PROT_READ | PROT_EXEC */
	pop %rdx
	mov %r14, %r10
	push $__NR_mmap
	pop %rax
	syscall
	cmp %rax, %rdi
	jne ask
	cmp %rbx, DIORAMA_COOKIE(%rdi)	/* or the name led to something else */
	jne ask
	jmp *%r13
ask:
	mov $DIORAMA_CALL_MEMFD, %ebp
	mov %r12, %r10
	inc %r15d
	cmp $3, %r15b
	jb _start
	hlt				/* nobody answers */
