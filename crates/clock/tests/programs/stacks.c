/*
 * Signal stacks of the least size that the system names, and what runs on them: a handler that makes trapped calls, one
 * that another interrupts, in threads too. Prints what goes wrong; a stack that overflows ends the program.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static __thread volatile int handled;
static __thread char *low, *high;

static void on_stack(const char *what)
{
	char here;
	if (&here < low || &here >= high)
		printf("%s: not on the signal stack\n", what);
}

static void calls(int sig)
{
	struct timespec t;
	on_stack("handler");
	/* By the system call, which traps on this very stack. */
	if (syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t))
		printf("signal %d: clock_gettime fails\n", sig);
	t = (struct timespec){ 0, 100000 };
	nanosleep(&t, 0);
	handled++;
}

static void *with_a_stack_of(void *size_)
{
	size_t size = (size_t)size_, page = 4096, whole = (size + 2 * page - 1) / page * page;
	/* An overflow hits the page below, which is not there. */
	char *memory = mmap(0, whole + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mprotect(memory, page, PROT_NONE);
	low = memory + page;
	stack_t stack = { .ss_sp = low, .ss_size = size };
	high = low + size;
	if (sigaltstack(&stack, 0)) {
		perror("sigaltstack");
		return 0;
	}
	/* The registers that make a frame large. */
	__asm__ volatile("vpxor %%ymm0, %%ymm0, %%ymm0" ::: "xmm0");
	struct timespec t = { 0, 1000000 };
	for (int i = 0; i < 10; i++) {
		syscall(SYS_tgkill, getpid(), gettid(), SIGUSR1);
		/* And while a trapped call waits. */
		nanosleep(&t, 0);
	}
	if (handled != 10)
		printf("%d of 10 signals\n", handled);
	return 0;
}

int main(void)
{
	struct sigaction a = { .sa_handler = calls, .sa_flags = SA_ONSTACK };
	sigfillset(&a.sa_mask);
	sigaction(SIGUSR1, &a, 0);
	/* A handler needs some room of its own, too. */
	size_t least = getauxval(AT_MINSIGSTKSZ) + 1024;
	size_t sizes[] = { least, least + 4096, 65536 };
	for (int i = 0; i < 3; i++) {
		pthread_t t;
		pthread_create(&t, 0, with_a_stack_of, (void *)sizes[i]);
		pthread_join(t, 0);
	}
	return 0;
}
