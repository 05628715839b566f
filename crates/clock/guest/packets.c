/*
 * When a packet came or went: SO_TIMESTAMP and its kin, whose values arrive as control messages, and SIOCGSTAMP.
 *
 * recvmsg is far too busy a call to be trapped for this. So the first process to ask for timestamps gets one more
 * filter, which traps recvmsg and recvmmsg in it and its descendants, and nowhere else.
 */
#include "dilation.h"
#include "trap_outside.h"

#include <linux/audit.h>

#define SOL_SOCKET 1
/* Options and types of control messages alike: old, and new, which differ on other machines only. */
#define TIMESTAMP 29
#define TIMESTAMPNS 35
#define TIMESTAMPING 37
#define TIMESTAMP_NEW 63
#define TIMESTAMPNS_NEW 64
#define TIMESTAMPING_NEW 65

#define SIOCGSTAMP 0x8906
#define SIOCGSTAMP_NEW 0x80108906

struct msghdr {
	u64 name;
	u32 name_len, pad;
	u64 iov, iov_len, control, control_len;
	u32 flags, pad2;
};

struct cmsghdr {
	u64 len;
	i32 level, type;
};

static void trap_receiving(void)
{
	static const struct sock_filter code[] = {
		{ BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, arch) },
		{ BPF_JMP | BPF_JEQ | BPF_K, 1, 0, AUDIT_ARCH_X86_64 },
		{ BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW },
		{ BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr) },
		{ BPF_JMP | BPF_JEQ | BPF_K, 2, 0, __NR_recvmsg },
		{ BPF_JMP | BPF_JEQ | BPF_K, 1, 0, __NR_recvmmsg },
		{ BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW },
		TRAP_OUTSIDE,
	};
	if (STATE->traps_receiving)
		return;
	STATE->traps_receiving = add_filter(code, sizeof code / sizeof *code);
}

long call_timestamp_option(struct call *c)
{
	i32 value;
	/* Before the option is set, so that no stamp is seen untranslated. A thread that already waits in recvmsg gets one. */
	if ((i32)c->a[4] >= 4 && read_user(&value, c->a[3], sizeof value) && value)
		trap_receiving();
	return syscall(c->nr, c->a[0], c->a[1], c->a[2], c->a[3], c->a[4]);
}

/* The kernel has just written them, so they may be touched. */
static void show_timespecs(struct timespec *t, u64 n)
{
	for (u64 i = 0; i < n; i++)
		if (t[i].sec || t[i].nsec)
			t[i] = shown(t[i]);
}

static void show_timeval(struct timeval *t)
{
	struct timespec s = shown((struct timespec){ t->sec, t->usec * 1000 });
	*t = (struct timeval){ s.sec, s.nsec / 1000 };
}

static void show_control(const struct msghdr *message)
{
	u64 at = message->control, end = at + message->control_len;
	while (at + sizeof(struct cmsghdr) <= end) {
		const struct cmsghdr *part = (const void *)at;
		if (part->len < sizeof *part || part->len > end - at)
			return;
		u64 data = at + sizeof *part, len = part->len - sizeof *part;
		if (part->level == SOL_SOCKET && len >= 16) {
			switch (part->type) {
			case TIMESTAMP:
			case TIMESTAMP_NEW:
				show_timeval((struct timeval *)data);
				break;
			case TIMESTAMPNS:
			case TIMESTAMPNS_NEW:
				show_timespecs((struct timespec *)data, 1);
				break;
			case TIMESTAMPING:
			case TIMESTAMPING_NEW:
				/* The software's; the third is a network card's own clock. */
				show_timespecs((struct timespec *)data, len >= 32 ? 2 : 1);
				break;
			}
		}
		at += (part->len + 7) & ~7ull;
	}
}

long call_recvmsg(struct call *c)
{
	long result = is_trapped(c->a[0]) ? call_transfer(c) : syscall(__NR_recvmsg, c->a[0], c->a[1], c->a[2]);
	if (result >= 0)
		show_control((const struct msghdr *)c->a[1]);
	return result;
}

/* struct mmsghdr[n]: as recvmmsg has filled it. */
void show_messages(u64 messages, long n)
{
	const u64 size = sizeof(struct msghdr) + 8;
	for (long i = 0; i < n; i++)
		show_control((const struct msghdr *)(messages + (u64)i * size));
}

long call_ioctl(struct call *c)
{
	if ((u8)(c->a[1] >> 8) == SECCOMP_IOC_MAGIC)
		return call_listener(c);
	long result = syscall(__NR_ioctl, c->a[0], c->a[1], c->a[2]);
	if (result == 0) {
		if ((u32)c->a[1] == SIOCGSTAMP || (u32)c->a[1] == SIOCGSTAMP_NEW)
			show_timeval((struct timeval *)c->a[2]);
		else
			show_timespecs((struct timespec *)c->a[2], 1);
	}
	return result;
}
