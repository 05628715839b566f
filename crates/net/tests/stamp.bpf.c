/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * Stands in for what keeps nodes' clocks: the clock that it writes into frames is the host's and an offset.
 * Without headers, so that it can be compiled anywhere.
 */
#define SECTION(name) __attribute__((section(name), used))

typedef unsigned char u8;
typedef unsigned long long u64;

static u64 (*const ktime_get_ns)(void) = (void *)5;
static long (*const store_bytes)(void *frame, unsigned at, const void *from, unsigned length, u64 flags) = (void *)9;
static long (*const load_bytes)(const void *frame, unsigned at, void *to, unsigned length) = (void *)26;

char _license[] SECTION("license") = "GPL";

struct {
	long long offset; /* real ns; set before it is loaded */
} config SECTION(".data");

/* Bursts that are to be cut into several frames pass as one. */
u64 passed SECTION(".bss");

SECTION("tc")
int stamp(void *frame)
{
	u64 value = ((ktime_get_ns() + config.offset) >> 4) & ((1ull << 46) - 1);
	u8 source[6];
	int i;

	if (load_bytes(frame, 6, source, 6) || source[0] != 2 || source[1] != 0)
		return 0;
	source[0] = ((value >> 40) << 1) | 1;
	for (i = 1; i < 6; i++)
		source[i] = value >> (8 * (5 - i));
	store_bytes(frame, 6, source, 6, 0);
	__sync_fetch_and_add(&passed, 1);
	return 0;
}
