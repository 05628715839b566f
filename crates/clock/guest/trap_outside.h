/* The end of a filter that traps calls, unless the image makes them, or asks for verdicts (settings/sandbox.c). */
#ifndef DIORAMA_TRAP_OUTSIDE_H
#define DIORAMA_TRAP_OUTSIDE_H

#include "layout.h"

#include <linux/filter.h>
#include <linux/seccomp.h>

/* The one of these instructions that says "allow". */
#define TRAP_OUTSIDE_ALLOWS 7
#define TRAP_OUTSIDE \
	{ BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, instruction_pointer) + 4 }, \
		{ BPF_JMP | BPF_JEQ | BPF_K, 1, 0, DIORAMA_ADDRESS_HIGH }, \
		{ BPF_RET | BPF_K, 0, 0, SECCOMP_RET_TRAP | DIORAMA_TRAP_DATA }, \
		{ BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, instruction_pointer) }, \
		{ BPF_JMP | BPF_JEQ | BPF_K, 3, 0, (u32)(DIORAMA_IMAGE + DIORAMA_JUDGE) }, \
		{ BPF_JMP | BPF_JEQ | BPF_K, 2, 0, (u32)(DIORAMA_IMAGE + DIORAMA_JUDGE_AGAIN) }, \
		{ BPF_JMP | BPF_JEQ | BPF_K, 1, 0, (u32)(DIORAMA_IMAGE + DIORAMA_CARRY_OUT) }, \
		{ BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW }, \
		{ BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | DIORAMA_NOT_JUDGED }

#endif
