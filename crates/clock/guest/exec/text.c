/* The little text that this program writes. */
#include "exec.h"

u64 length(const char *s)
{
	u64 n = 0;
	while (s[n])
		n++;
	return n;
}

bool same(const char *a, const char *b)
{
	while (*a && *a == *b) {
		a++;
		b++;
	}
	return *a == *b;
}

void say(const char *s)
{
	syscall(__NR_write, 2, s, length(s));
}

void say_number(u64 n)
{
	char room[24];
	room[23] = 0;
	say(decimal(room + 23, n));
}

u64 parse(const char *s)
{
	u64 n = 0;
	while (*s >= '0' && *s <= '9')
		n = n * 10 + (u64)(*s++ - '0');
	return n;
}

/* gcc may ask for it whatever its options. */
void *memset(void *to, int byte, size_t n)
{
	void *start = to;
	__asm__ volatile("rep stosb" : "+D"(to), "+c"(n) : "a"(byte) : "memory");
	return start;
}

void *memcpy(void *to, const void *from, size_t n)
{
	copy(to, from, n);
	return to;
}
