/*
 * The first code of ours in a new program, written into the state page by the injector. The rest of the image is not
 * there yet: get the memfd, map the image from it, go on there. The memfd's first page is the clock page.
 *
 * At entry: rsp as the kernel left it, r12 = DIORAMA_STATE, r13 = length of the image, r14 = dilation_entry.
 */
#include <asm/unistd.h>
#include "layout.h"
	.text
	.globl _start
_start:
	mov $DIORAMA_CALL_MEMFD, %eax
	syscall
	test %eax, %eax
	js failed
	mov %eax, %r15d			/* dilation_entry closes it */
	mov $__NR_mmap, %eax
	movabs $DIORAMA_IMAGE, %rdi
	mov %r13, %rsi
	mov $5, %edx			/* PROT_READ | PROT_EXEC */
	mov $0x100002, %r10d		/* MAP_PRIVATE | MAP_FIXED_NOREPLACE */
	mov %r15d, %r8d
	mov $DIORAMA_PAGE_SIZE, %r9d
	syscall
	cmp %rax, %rdi
	jne failed
	jmp *%r14
failed:
	mov %eax, %r12d
	mov $__NR_write, %eax
	mov $2, %edi
	lea says(%rip), %rsi
	mov $says_end - says, %edx
	syscall
	mov $__NR_exit_group, %eax
	mov $125, %edi
	syscall
	hlt
says:	.ascii "diorama: no room in this process for the clock (descriptors or addresses)\n"
says_end:
