/*
 * Rules of iptables and ip6tables that are not nftables': a whole table at a time goes through setsockopt and
 * getsockopt, and what is a time in it is said by the names of matches and targets, as in attributes.h.
 */
#include "settings.h"

#define SOL_IPV6 41
#define SET_REPLACE 64
#define GET_ENTRIES 65
#define LONGEST (64ull << 20)

/* struct ipt_replace and ip6t_replace, and ipt_get_entries: what stands in front of the rules. */
#define REPLACE_HEAD 96
#define GET_HEAD 40
#define GET_SIZE 32 /* where it says how long the rules are */

/* struct ipt_entry, and ip6t_entry: where it says how far its target and the next rule are, and where matches begin. */
struct form {
	u16 target, next, matches;
};

static u32 get16(const u8 *at)
{
	return (u32)(at[0] | at[1] << 8);
}

/* A match or a target, of at most `room` bytes; how long it is, or 0 if it is none. */
static u32 extension(const struct conversion *by, u32 group, u8 *at, u64 room)
{
	u32 size = room >= 32 ? get16(at) : 0;
	if (size < 32 || size > room)
		return 0;
	translate_named(by, group, (const char *)at + 2, 29, at + 32, size - 32);
	return size;
}

static void rules(const struct conversion *by, const struct form *form, u8 *at, u64 len)
{
	while (len >= form->matches) {
		u32 target = get16(at + form->target), next = get16(at + form->next), match = form->matches, size;
		if (next < target || next > len || target < match)
			return;
		for (; match < target; match += size)
			if (!(size = extension(by, IN_MATCHES, at + match, target - match)))
				break;
		extension(by, IN_TARGETS, at + target, next - target);
		at += next;
		len -= next;
	}
}

long call_table_option(struct call *c)
{
	static const struct form four = { 88, 90, 112 }, six = { 140, 142, 168 };
	const struct form *form = c->a[1] == SOL_IPV6 ? &six : &four;
	struct conversion by = conversion(c->nr == __NR_setsockopt);
	u64 len = (u32)c->a[4], at = c->a[3];
	if (by.num == by.den)
		return as_is(c);
	if (c->nr == __NR_getsockopt) {
		long result = as_is(c);
		/* The kernel has just written it. */
		if (result == 0)
			rules(&by, form, (u8 *)at + GET_HEAD, *(const u32 *)(at + GET_SIZE));
		return result;
	}
	long memory = len > LONGEST || len < REPLACE_HEAD ? -ENOMEM
							  : syscall(__NR_mmap, 0, len, 3, 0x22, -1, 0);
	if (memory < 0 && memory > -4096)
		return as_is(c);
	long result = -EFAULT;
	if (read_long((u8 *)memory, at, len)) {
		rules(&by, form, (u8 *)memory + REPLACE_HEAD, len - REPLACE_HEAD);
		result = syscall(__NR_setsockopt, c->a[0], c->a[1], c->a[2], memory, len);
	}
	syscall(__NR_munmap, memory, len);
	return result;
}
