/*
 * The first code of ours in a new program, at the end of its vDSO. The image is not there yet: get the memfd, map it, go
 * on in the image.
 *
 * The descriptor comes from the first of two calls that gives one: the one that the injector has put into the registers
 * (openat2 of the memfd's name, where it has one), or asking the injector.
 *
 * At entry: ebp = number of the first call, rdi, rsi, rdx, r10 = its arguments; r9 = 0; r12 = struct parameters,
 * r13 = DIORAMA_IMAGE, r14 = dilation_entry, rbx = the memfd's cookie.
 */
#include <asm/errno.h>
#include <asm/unistd.h>
#include "layout.h"
	.text
	.globl _start
_start:
	mov %ebp, %eax
	syscall
	test %eax, %eax
	jns map
	xor %edi, %edi
	mov $DIORAMA_CALL_MEMFD, %eax
	syscall
	test %eax, %eax
	js failed
map:
	mov %eax, %r8d			/* dilation_entry closes it */
	mov %r13, %rdi
	mov $DIORAMA_MEMFD_SIZE, %esi
	push $5				/* PROT_READ | PROT_EXEC */
	pop %rdx
	mov $0x100001, %r10d		/* MAP_SHARED | MAP_FIXED_NOREPLACE */
	push $__NR_mmap
	pop %rax
	syscall
	cmp %rax, %rdi
	jne failed
	mov $-ESTALE, %eax
	cmp %rbx, DIORAMA_COOKIE(%rdi)	/* or the name led to something else */
	jne failed
	jmp *%r14
failed:
	mov %eax, %edi
	mov $DIORAMA_CALL_MEMFD, %eax
	syscall				/* does not return */
	hlt
