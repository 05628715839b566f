/*
 * The first code of ours in a new program, at the end of its vDSO. The image is not there yet: get the memfd, map the
 * image from it, go on there. The memfd's first page is the clock page.
 *
 * At entry: rsp as the kernel left it, r12 = struct parameters, r13 = length of the image, r14 = dilation_entry.
 */
#include <asm/unistd.h>
#include "layout.h"
	.text
	.globl _start
_start:
	xor %edi, %edi
	mov $DIORAMA_CALL_MEMFD, %eax
	syscall
	test %eax, %eax
	js failed
	mov %eax, %r15d			/* dilation_entry closes it */
	movabs $DIORAMA_IMAGE, %rdi
	mov %r13, %rsi
	push $5				/* PROT_READ | PROT_EXEC */
	pop %rdx
	mov $0x100002, %r10d		/* MAP_PRIVATE | MAP_FIXED_NOREPLACE */
	mov %r15d, %r8d
	mov $DIORAMA_PAGE_SIZE, %r9d
	push $__NR_mmap
	pop %rax
	syscall
	cmp %rax, %rdi
	jne failed
	jmp *%r14
failed:
	mov %eax, %edi
	mov $DIORAMA_CALL_MEMFD, %eax
	syscall				/* does not return */
	hlt
