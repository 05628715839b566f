/* Times of System V IPC objects: the kernel stamps them with the host's date, in whole seconds. */
#include "../dilation.h"


/* The kernel has just written the structure, so it may be touched. */
static void show_second(u64 at)
{
	i64 *t = (i64 *)at;
	/* 0: it has never happened. */
	if (*t > 0 && *t < (i64)(FOREVER / NS))
		*t = date_virtual(*t * (i64)NS) / (i64)NS;
}

/* shmctl, msgctl and semctl with a command of the IPC_STAT kind (filter.c). */
long call_ipc_stat(struct call *c)
{
	/* struct shmid64_ds, msqid64_ds and semid64_ds of x86-64: where their times are; 0: no third one. */
	static const u8 shm[] = { 56, 64, 72 }, msg[] = { 48, 56, 64 }, sem[] = { 48, 64, 0 };
	const u8 *times = c->nr == __NR_shmctl ? shm : c->nr == __NR_msgctl ? msg : sem;
	u64 to = c->nr == __NR_semctl ? c->a[3] : c->a[2];
	long result = syscall(c->nr, c->a[0], c->a[1], c->a[2], c->a[3]);
	for (int i = 0; result >= 0 && i < 3 && times[i]; i++)
		show_second(to + times[i]);
	return result;
}
