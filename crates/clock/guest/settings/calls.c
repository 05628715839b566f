/*
 * Where settings pass by: netlink sockets, and files below /proc/sys/net.
 *
 * Reading and writing are far too busy to be trapped for this. So the first process that opens such a socket, or such a
 * file for writing, gets one more filter, as packets.c's, which traps these calls in it and its descendants, and only
 * on descriptors that are handed out for this purpose: they have numbers that few others have.
 */
#include "settings.h"
#include "../trap_outside.h"

#include <linux/audit.h>

/* So that select can still name them, and descriptors of something else are rarely among them. */
#define FIRST 200
#define TRAPPED 64
/* Of one message, or several together; longer ones pass as they are. */
#define LONGEST (64ull << 20)

#define F_DUPFD 0
#define F_GETFD 1
#define F_DUPFD_CLOEXEC 1030
#define SOL_SOCKET 1
#define SO_PROTOCOL 38
#define SO_DOMAIN 39
#define AF_NETLINK 16

struct iovec {
	u64 base, len;
};
struct msghdr {
	u64 name;
	u32 name_len, pad;
	u64 iov, iov_len, control, control_len;
	u32 flags, pad2;
};

bool add_filter(const struct sock_filter *code, u64 count)
{
	struct sock_fprog program = { (u16)count, (struct sock_filter *)code };
	long all = syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER,
			   SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_SPEC_ALLOW, &program);
	if (all != 0)
		syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, &program);
	return all == 0;
}

/* A filter that traps those of the calls in its midst whose first argument is one of so many descriptors. */
#define LOAD(field) { BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, field) }
#define IF_CALL(n, left) { BPF_JMP | BPF_JEQ | BPF_K, (left) + 1, 0, __NR_##n }
#define BEGIN \
	LOAD(arch), { BPF_JMP | BPF_JEQ | BPF_K, 1, 0, AUDIT_ARCH_X86_64 }, \
		{ BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW }, LOAD(nr)
#define END(from, count) \
	{ BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW }, LOAD(args[0]), { BPF_ALU | BPF_SUB | BPF_K, 0, 0, from }, \
		{ BPF_JMP | BPF_JGE | BPF_K, TRAP_OUTSIDE_ALLOWS, 0, count }, TRAP_OUTSIDE

static void trap_from(u32 first)
{
	struct sock_filter code[] = {
		BEGIN,
		IF_CALL(sendto, 7),
		IF_CALL(sendmsg, 6),
		IF_CALL(recvfrom, 5),
		IF_CALL(recvmsg, 4),
		IF_CALL(readv, 3),
		IF_CALL(writev, 2),
		IF_CALL(read, 1),
		IF_CALL(write, 0),
		END(first, TRAPPED),
	};
	if (STATE->traps_from == first)
		return;
	if (add_filter(code, sizeof code / sizeof *code))
		STATE->traps_from = first;
}

void trap_output(void)
{
	static const struct sock_filter code[] = { BEGIN, IF_CALL(writev, 1), IF_CALL(write, 0), END(1, 1) };
	if (!STATE->traps_output)
		STATE->traps_output = add_filter(code, sizeof code / sizeof *code);
}

long trap_descriptor(long fd)
{
	bool cloexec = syscall(__NR_fcntl, fd, F_GETFD) & 1;
	long high = syscall(__NR_fcntl, fd, cloexec ? F_DUPFD_CLOEXEC : F_DUPFD, FIRST);
	/* Where there may be so few descriptors, all that come after this one trap. */
	trap_from(high >= 0 && high < FIRST + TRAPPED ? FIRST : (u32)(high >= 0 ? high : fd));
	if (high < 0)
		return fd;
	syscall(__NR_close, fd);
	return high;
}

/*
 * Whether the C library asks for itself: for the addresses of this machine, which getaddrinfo wants to know, and in
 * which no time is of interest. Every client does that, and is spared the filter. It is seen by the call: natively a
 * program's own goes to another library, through a table, and this one straight to the function that has trapped.
 */
static bool of_libc(const struct call *c)
{
	struct {
		u8 call;
		i32 distance;
	} __attribute__((packed)) code;
	u64 back;
	if (!STATE->has_libc || !c->context || !read_user(&back, c->context->rsp, sizeof back) ||
	    !read_user(&code, back - sizeof code, sizeof code))
		return false;
	u64 function = back + (u64)(i64)code.distance;
	return code.call == 0xe8 && c->context->rip - function <= 32;
}

long call_socket(struct call *c)
{
	long fd = as_is(c);
	return fd < 0 || of_libc(c) ? fd : trap_descriptor(fd);
}

/* The protocol of a netlink socket; -1 of anything else. */
static i32 netlink_protocol(u64 fd)
{
	i32 value = 0;
	u32 len = sizeof value;
	if (syscall(__NR_getsockopt, fd, SOL_SOCKET, SO_DOMAIN, &value, &len) || value != AF_NETLINK)
		return -1;
	return syscall(__NR_getsockopt, fd, SOL_SOCKET, SO_PROTOCOL, &value, &len) ? -1 : value;
}

static u8 *reserve(u64 len)
{
	long memory = syscall(__NR_mmap, 0, len, 3 /* READ | WRITE */, 0x22 /* PRIVATE | ANONYMOUS */, -1, 0);
	return memory < 0 && memory > -4096 ? 0 : (u8 *)memory;
}

/* The entries of a list of buffers, one after the other; false if one is not there. */
static bool entry(struct iovec *one, u64 list, u64 i)
{
	return read_user(one, list + i * sizeof *one, sizeof *one);
}

/* The length of all buffers together; -1 if they are bad, or too many. */
static i64 total(u64 list, u64 count)
{
	u64 sum = 0;
	struct iovec one;
	for (u64 i = 0; i < count; i++) {
		if (count > 1024 || !entry(&one, list, i) || one.len > LONGEST || (sum += one.len) > LONGEST)
			return -1;
	}
	return (i64)sum;
}

/* Between buffers and memory of our own, `len` bytes; false for a bad pointer. */
static bool transfer(u8 *memory, u64 list, u64 count, u64 len, bool from_user)
{
	struct iovec one;
	for (u64 i = 0; i < count && len; i++) {
		if (!entry(&one, list, i))
			return false;
		while (one.len && len) {
			/* As much as read_user and write_user look at. */
			u64 part = 0x1000 - (one.base & 0xfff);
			part = part < one.len ? part : one.len;
			part = part < len ? part : len;
			if (!(from_user ? read_user(memory, one.base, part) : write_user(one.base, memory, part)))
				return false;
			memory += part;
			one.base += part;
			one.len -= part;
			len -= part;
		}
	}
	return true;
}

bool read_long(u8 *to, u64 from, u64 len)
{
	for (u64 part; len; to += part, from += part, len -= part) {
		part = 0x1000 - (from & 0xfff);
		part = part < len ? part : len;
		if (!read_user(to, from, part))
			return false;
	}
	return true;
}

/* Sends what lies in buffers, in virtual time. `header` is sendmsg's; else there is an address of sendto, or none. */
static long send_messages(const struct call *c, i32 protocol, u64 list, u64 count, const struct msghdr *header,
			  u64 flags)
{
	i64 len = total(list, count);
	if (len <= 0)
		return as_is(c);
	/* For the defaults that are said: no message has more of them than that, however short it is. */
	u64 room = 4 * (u64)len + 0x1000;
	u8 *copy = reserve(room);
	long result;
	if (!copy || !transfer(copy, list, count, (u64)len, true)) {
		result = as_is(c);
	} else {
		struct iovec all = { (u64)copy, translate_messages((u32)protocol, true, copy, (u64)len, room) };
		struct msghdr message = header ? *header : (struct msghdr){ 0 };
		message.iov = (u64)&all;
		message.iov_len = 1;
		if (c->nr == __NR_sendto) {
			message.name = c->a[4];
			message.name_len = (u32)c->a[5];
		}
		result = syscall(__NR_sendmsg, c->a[0], &message, flags);
		/* A message goes whole or not at all. */
		if (result >= 0)
			result = (long)len;
	}
	if (copy)
		syscall(__NR_munmap, copy, room);
	return result;
}

/* Converts what the kernel has just written into buffers, `len` bytes. */
static void show_received(i32 protocol, u64 list, u64 count, u64 len)
{
	struct iovec first;
	i64 room = total(list, count);
	if (room <= 0 || !entry(&first, list, 0))
		return;
	/* More was there than there was room for. */
	len = len < (u64)room ? len : (u64)room;
	if (len <= first.len) {
		translate_messages((u32)protocol, false, (u8 *)first.base, len, len);
		return;
	}
	u8 *copy = reserve(len);
	if (copy && transfer(copy, list, count, len, true)) {
		translate_messages((u32)protocol, false, copy, len, len);
		transfer(copy, list, count, len, false);
	}
	if (copy)
		syscall(__NR_munmap, copy, len);
}

/*
 * sendto, sendmsg, recvfrom, recvmsg, read, write, readv and writev, on a trapped descriptor or another that has such a
 * number now.
 */
long call_transfer(struct call *c)
{
	long result;
	struct msghdr header;
	struct iovec one = { c->a[1], c->a[2] };
	i32 protocol = netlink_protocol(c->a[0]);
	if (protocol < 0)
		return sysctl_call(c, &result) ? result : as_is(c);
	switch (c->nr) {
	case __NR_sendmsg:
		if (!read_user(&header, c->a[1], sizeof header))
			return as_is(c);
		return send_messages(c, protocol, header.iov, header.iov_len, &header, c->a[2]);
	case __NR_writev:
		return send_messages(c, protocol, c->a[1], c->a[2], 0, 0);
	case __NR_sendto:
	case __NR_write:
		return send_messages(c, protocol, (u64)&one, 1, 0, c->nr == __NR_sendto ? c->a[3] : 0);
	}
	result = as_is(c);
	if (result <= 0)
		return result;
	switch (c->nr) {
	case __NR_recvmsg:
		/* The kernel has read it, so it may be touched. */
		copy(&header, (const void *)c->a[1], sizeof header);
		show_received(protocol, header.iov, header.iov_len, (u64)result);
		break;
	case __NR_readv:
		show_received(protocol, c->a[1], c->a[2], (u64)result);
		break;
	default:
		show_received(protocol, (u64)&one, 1, (u64)result);
	}
	return result;
}

/* recvmsg may trap for its timestamps, too, and then it is not only this that is to be shown. */
bool is_trapped(u64 fd)
{
	return fd - FIRST < TRAPPED || (STATE->traps_from && fd - STATE->traps_from < TRAPPED);
}
