/*
 * Call sites that need no signal.
 *
 * A trapped call costs a signal: some 2 to 3 us, several times what most of the calls themselves cost. Nearly all calls
 * of a C library look alike:
 *
 *	b8 NR NR NR NR		mov $NR, %eax
 *	0f 05			syscall
 *
 * Once such a site has trapped a few times, its first instruction is replaced by a jump as long as itself, to a stub
 * near by, and from there to the image, which answers as the handler would and goes on behind the site. To the program
 * that is a system call as any other: rcx holds the address behind it, and nothing else has changed. Three more
 * instructions of five bytes are known in front of a syscall, where glibc makes calls whose number comes from
 * elsewhere; the stub does what they did.
 *
 * The syscall instruction stays where it is. A thread that was between the two, and code that jumps to the second, trap
 * as before. So does every site that looks otherwise.
 *
 * A jump reaches 2 GiB, and the image is further off. So one page of it, that with the stubs, is mapped once more
 * within reach of the site: the same page of the same memfd, no new memory, and nobody writes code into it. The stub
 * knows its number only; where to go on is in the table of sites, in the process's own state.
 *
 * What is changed is the program's text (a private copy of the page, as a debugger's breakpoint makes one), so:
 *
 *  - It must be text: a segment, to be read and executed only, of an ELF file that is found in front of it. What
 *    compilers generate at run time is left alone.
 *  - Not Go's: a goroutine's stack has no room for the image's functions. (A signal's frame goes to another stack.)
 *  - One store changes it: an aligned one of eight bytes, which other processors see whole or not at all. Half of all
 *    sites are not within such eight bytes; they are changed where all threads share one core (`given.one_core`, as in
 *    nodes), where any single instruction is whole for the others.
 *  - A program that installs a filter of its own (settings/sandbox.c) is to be judged by it at every call: no site of
 *    it is changed any more, and those that are make their calls by the syscall instruction again.
 *  - What the kernel refuses (to a process that forbade itself memory both writable and executable) is not asked for
 *    again.
 *
 * An answer in place has no frame of a signal. So calls whose answer needs one are not BUSY (calls.h).
 */
#include "dilation.h"

/* After how often it pays: changing a site costs about as much as this many traps. */
#define OFTEN 6
#define REFUSED 0xffffffff
#define DONE 0xfffffffe
/* How far in front of a site the beginning of its file is looked for. */
#define FAR_BEFORE (4ull << 20)

#define PROT_READ 1
#define PROT_WRITE 2
#define PROT_EXEC 4

/*
 * The stubs, one for each site of the table and each form that it may have, in a page of their own at DIORAMA_STUBS.
 * They run in copies of that page, so they name nothing in the image by its distance. Only rcx and r11 may change,
 * which a system call changes, too, and rax, where the result will be.
 */
#define STUBS(instruction, tail) \
	".set site, 0\n" \
	".rept " NUMBER(DIORAMA_SITES) "\n" \
	"	.balign " NUMBER(DIORAMA_STUB_SIZE) "\n" \
	"	" instruction "\n" \
	"	mov $(site * " NUMBER(DIORAMA_SITE_SIZE) "), %ecx\n" \
	"	jmp " tail "\n" \
	"	.set site, site + 1\n" \
	".endr\n"
#define FORMS 4
static const u8 forms[FORMS][5] = {
	{ 0xb8 }, /* mov $NR, %eax */
	{ 0x48, 0x8b, 0x44, 0x24, 0x10 },
	{ 0x4c, 0x89, 0x5c, 0x24, 0x08 },
	{ 0x4c, 0x8b, 0x4c, 0x24, 0x08 },
};
__asm__(".section .stubs, \"ax\", @progbits\n"
	STUBS("", "1f")
	/* Calls that may be cancelled, since glibc 2.41: of a process with one thread, and with several. */
	STUBS("mov 16(%rsp), %rax", "2f")
	STUBS("mov %r11, 8(%rsp)", "2f")
	/* syscall(3) of glibc. */
	STUBS("mov 8(%rsp), %r9", "2f")
	"1:	movabs $" NUMBER(DIORAMA_IMAGE) " + " NUMBER(DIORAMA_ANSWER) ", %r11\n"
	"	jmp *%r11\n"
	"2:	movabs $" NUMBER(DIORAMA_IMAGE) " + " NUMBER(DIORAMA_ANSWER) " + 16, %r11\n"
	"	jmp *%r11\n"
	".text\n");

/*
 * From a stub: rcx is where the site is in the table, and if the first 16 bytes were left out rax is the number of the
 * call. The stack is the program's, with 128 bytes below the stack pointer that are its own. What it shows to
 * unwinders, of C++ exceptions and cancelled threads, is the site, as if a signal had interrupted the program there.
 */
struct answering {
	struct call call;
	u64 flags, after;
};
__asm__(".section .answer, \"ax\", @progbits\n"
	"	.cfi_startproc\n"
	"	.cfi_signal_frame\n"
	"	.cfi_def_cfa %rsp, 0\n"
	"	.cfi_undefined %rip\n"
	"	movabs $" NUMBER(DIORAMA_SITE_TABLE) ", %r11\n"
	"	mov 8(%r11, %rcx), %eax\n"
	"	.balign 16\n"
	"	movabs $" NUMBER(DIORAMA_SITE_TABLE) ", %r11\n"
	"	mov (%r11, %rcx), %rcx\n"
	"	.cfi_register %rip, %rcx\n"
	"	lea -128(%rsp), %rsp\n"
	"	.cfi_adjust_cfa_offset 128\n"
	"	push %rcx\n" /* struct answering: where to go on, */
	"	.cfi_adjust_cfa_offset 8\n"
	"	.cfi_rel_offset %rip, 0\n"
	"	pushfq\n" /* the flags, */
	"	.cfi_adjust_cfa_offset 8\n"
	"	cld\n"
	"	push $0\n" /* no context, */
	"	push %r9\n" /* the arguments, */
	"	push %r8\n"
	"	push %r10\n"
	"	push %rdx\n"
	"	push %rsi\n"
	"	push %rdi\n"
	"	push %rax\n" /* and the number */
	"	.cfi_adjust_cfa_offset 64\n"
	"	mov %rsp, %rdi\n"
	"	call answer\n"
	"	lea 8(%rsp), %rsp\n"
	"	pop %rdi\n"
	"	pop %rsi\n"
	"	pop %rdx\n"
	"	pop %r10\n"
	"	pop %r8\n"
	"	pop %r9\n"
	"	lea 8(%rsp), %rsp\n"
	"	.cfi_adjust_cfa_offset -64\n"
	"	popfq\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	pop %rcx\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	.cfi_register %rip, %rcx\n"
	"	lea 128(%rsp), %rsp\n"
	"	.cfi_adjust_cfa_offset -128\n"
	"	jmp *%rcx\n"
	"	.cfi_endproc\n"
	".text\n");

/* Whether a call concerns us, as the filter's rules of the same names find (exec/filter.c). */
static bool always(const struct call *c)
{
	(void)c;
	return true;
}

static bool if_given(const struct call *c, int a, int b)
{
	return c->a[a] || c->a[b];
}

static bool milliseconds(const struct call *c, int ms, int mask)
{
	if (mask && c->a[mask])
		return true;
	i32 wait = (i32)c->a[ms];
	return wait ? wait > 0 : STATE->node_clock && (!mask || c->a[mask + 1]);
}

static bool futex(const struct call *c)
{
	switch (c->a[1] & 0x7f) {
	case 0: /* WAIT */
	case 6: /* LOCK_PI */
	case 9: /* WAIT_BITSET */
	case 11: /* WAIT_REQUEUE_PI */
	case 13: /* LOCK_PI2 */
		return c->a[3] != 0;
	}
	return false;
}

static bool opening(const struct call *c, int flags)
{
	return !(c->a[flags] & (0x10000 /* O_DIRECTORY */ | 0x200000 /* O_PATH */));
}

static bool changes_mask(const struct call *c)
{
	return (i32)c->a[0] != 1 /* SIG_UNBLOCK */ && c->a[1];
}

__attribute__((used, visibility("hidden"))) long answer(struct answering *it)
{
	struct call *c = &it->call;
	switch (STATE->sandboxed ? ~0ull : c->nr) {
#define CALL(...)
#define BUSY(number, handler, rule, ...) \
	case number: \
		return rule(c, ##__VA_ARGS__) ? handler(c) : as_is(c);
#include "calls.h"
#undef CALL
	default:
		/* The site's own syscall instruction makes it: it may have to trap, or be judged. */
		it->after -= 2;
		return (long)c->nr;
	}
}

static bool busy(u64 nr)
{
	switch (nr) {
#define CALL(...)
#define BUSY(number, ...) case number:
#include "calls.h"
#undef CALL
		return true;
	default:
		return false;
	}
}

struct elf {
	u8 ident[16];
	u16 type, machine;
	u32 version;
	u64 entry, programs, sections;
	u32 flags;
	u16 size, program_size, program_count;
};
struct program {
	u32 type, flags;
	u64 offset, address, physical, file_size, memory_size, align;
};
#define PT_LOAD 1
#define PT_NOTE 4

/* Whether notes are of the Go tool chain. */
static bool of_go(u64 at, u64 size)
{
	struct {
		u32 name_size, size, type;
		char name[4];
	} note;
	while (size >= sizeof note && read_user(&note, at, sizeof note)) {
		if (note.name_size == 4 && note.name[0] == 'G' && note.name[1] == 'o' && !note.name[2])
			return true;
		u64 next = 12 + ((note.name_size + 3ull) & ~3ull) + ((note.size + 3ull) & ~3ull);
		if (next > size)
			return false;
		at += next;
		size -= next;
	}
	return false;
}

/* Whether the ELF file whose first page is at `base` has `site` in its text, and may be changed. */
static bool is_text_of(u64 base, u64 site)
{
	const struct elf *elf = (const struct elf *)base;
	const struct program *all = (const struct program *)(base + elf->programs), *end = all + elf->program_count;
	if (elf->ident[4] != 2 /* 64 bits */ || elf->program_size != sizeof *all || (u64)end - base > 0x1000 ||
	    all > end)
		return false;
	bool found = false, first = true;
	u64 moved = 0;
	for (const struct program *p = all; p < end; p++) {
		if (p->type == PT_LOAD && first) {
			moved = base - (p->address - p->offset);
			first = false;
		}
		found |= p->type == PT_LOAD && p->flags == 5 /* R, X */ && site - (p->address + moved) < p->file_size;
	}
	for (const struct program *p = all; p < end && found; p++)
		found = p->type != PT_NOTE || !of_go(p->address + moved, p->memory_size);
	return found;
}

static bool is_text(u64 site)
{
	for (u64 base = PAGE_OF(site); PAGE_OF(site) - base < FAR_BEFORE; base -= 0x1000) {
		u32 magic;
		if (!read_user(&magic, base, sizeof magic))
			return false; /* a hole: not one file any more */
		if (magic == 0x464c457f && is_text_of(base, site))
			return true;
	}
	return false;
}

static bool within_reach(u64 a, u64 b)
{
	return (a > b ? a - b : b - a) < 0x7fff0000;
}

/* Where a page with stubs is, or is put, that a jump from `site` reaches; 0 if there is no room. */
static u64 stubs_near(u64 site)
{
	u64 *known = STATE->stubs;
	for (int i = 0; i < DIORAMA_STUB_COPIES; i++)
		if (known[i] && within_reach(known[i], site))
			return known[i];
	int free = 0;
	while (free < DIORAMA_STUB_COPIES && known[free])
		free++;
	/* Rather below, where neither a program's heap nor anything else that has its place grows to; else far above. */
	for (u64 i = 1; i < 64 && free < DIORAMA_STUB_COPIES; i++) {
		u64 at = PAGE_OF(site) + (i < 32 ? -i : 64 - i) * (60ull << 20);
		if ((i64)at < 0x10000)
			continue;
		long got = syscall(__NR_mmap, at, 0x1000, 0,
				   0x104022 /* PRIVATE | ANONYMOUS | NORESERVE | NOREPLACE */, -1, 0);
		if (got != (long)at)
			continue;
		/* Of a shared mapping, "none of it" means a second one. */
		got = syscall(__NR_mremap, DIORAMA_IMAGE + DIORAMA_STUBS, 0, 0x1000, 3 /* MAYMOVE | FIXED */, at);
		if (got == (long)at)
			return known[free] = at;
		syscall(__NR_munmap, at, 0x1000);
		break;
	}
	return 0;
}

/* The eight bytes that are stored to change a site's first five, all of one page; 0 if there are none. */
static u64 stored_for(u64 site)
{
	u64 word = site & ~7ull, page = PAGE_OF(site);
	if (site - word <= 3)
		return word;
	if (!STATE->given.one_core || PAGE_OF(site + 4) != page)
		return 0;
	return PAGE_OF(site + 7) == page ? site : site - 3;
}

/* The site's first instruction becomes that of these bytes, by a store at `word`. */
static bool store(u64 site, u64 word, const u8 *instruction)
{
	u64 page = PAGE_OF(site);
	if (syscall(__NR_mprotect, page, 0x1000, PROT_READ | PROT_WRITE | PROT_EXEC)) {
		STATE->sites_closed = true;
		return false;
	}
	union {
		u64 word;
		u8 bytes[8];
	} code = { *(const volatile u64 *)word };
	copy(code.bytes + (site - word), instruction, 5);
	*(volatile u64 *)word = code.word;
	syscall(__NR_mprotect, page, 0x1000, PROT_READ | PROT_EXEC);
	return true;
}

/* It becomes a jump to `to`. */
static bool change(u64 site, u64 word, u64 to)
{
	u8 jump[5] = { 0xe9 };
	u32 distance = (u32)(to - (site + 5));
	copy(jump + 1, &distance, 4);
	return store(site, word, jump);
}

/*
 * For a program that makes the addresses its own: it does not know of the stubs, and may put something there. At that
 * time it has one thread.
 */
void restore_sites(void)
{
	STATE->sites_closed = true;
	for (struct site *site = SITES, *end = SITES + DIORAMA_SITES; site < end; site++) {
		u64 start = site->after - 7, word;
		u32 distance;
		u8 was[5];
		if (site->seen != DONE || !(word = stored_for(start)) || !is_readable(start, 5) || *(u8 *)start != 0xe9)
			continue;
		copy(&distance, (const void *)(start + 1), 4);
		u64 stub = (start + 5 + (u64)(i64)(i32)distance) & 0xfff, form = stub / DIORAMA_STUB_SIZE / DIORAMA_SITES;
		copy(was, forms[form], 5);
		if (form == 0)
			copy(was + 1, &site->nr, 4);
		if (store(start, word, was))
			site->seen = REFUSED;
	}
	for (int i = 0; i < DIORAMA_STUB_COPIES; i++)
		if (STATE->stubs[i] && !syscall(__NR_munmap, STATE->stubs[i], 0x1000))
			STATE->stubs[i] = 0;
}

/*
 * munmap of the image, or of what lies behind it. Whoever manages all addresses itself (valgrind, for the program that
 * it runs) does away with the vDSO. The kernel's may be one that cannot be taken away, so this is nothing new.
 */
long call_munmap(struct call *c)
{
	if (c->a[0] >= DIORAMA_NODE_CLOCK + DIORAMA_PAGE_SIZE || c->a[0] != PAGE_OF(c->a[0]) || !c->a[1])
		return as_is(c);
	restore_sites();
	STATE->machine = true;
	return -EPERM;
}

/* Which form a site has of which these are the eight bytes up to where the call returns to; FORMS if none. */
static u32 form_of(const u8 *code, u64 nr, u64 r8)
{
	if (code[6] != 0x0f || code[7] != 0x05)
		return FORMS;
	if (code[1] == forms[0][0]) {
		u32 number = code[2] | code[3] << 8 | code[4] << 16 | (u32)code[5] << 24;
		/* A byte in front may make it a mov to r8. */
		bool longer = (code[0] & 0xf1) == 0x41 && (u32)r8 == number;
		return number == nr && !longer ? 0 : FORMS;
	}
	for (u32 form = 1; form < FORMS; form++) {
		u32 same = 0;
		while (same < 5 && code[1 + same] == forms[form][same])
			same++;
		if (same == 5)
			return form;
	}
	return FORMS;
}

static u32 try_to_change(struct site *site, u32 number, const struct ucontext *u)
{
	u8 code[8];
	u64 start = site->after - 7, word = stored_for(start), stubs;
	/* Cheap tests first: to find the file may take a thousand system calls. */
	if (!word || !read_user(code, start - 1, sizeof code))
		return REFUSED;
	u32 form = form_of(code, site->nr, u->r8);
	if (form == FORMS || !is_text(start) || !(stubs = stubs_near(start)))
		return REFUSED;
	return change(start, word, stubs + (form * DIORAMA_SITES + number) * DIORAMA_STUB_SIZE) ? DONE : REFUSED;
}

void count_trap(const struct call *c)
{
	const struct ucontext *u = c->context;
	if (STATE->sites_closed || !busy(c->nr))
		return;
	u32 known = STATE->sites;
	struct site *site = SITES, *end = SITES + (known < DIORAMA_SITES ? known : DIORAMA_SITES);
	while (site < end && site->after != u->rip)
		site++;
	if (site == end) {
		u32 number = __atomic_fetch_add(&STATE->sites, 1, __ATOMIC_RELAXED);
		if (number >= DIORAMA_SITES) {
			STATE->sites_closed = true;
			return;
		}
		site = SITES + number;
		site->nr = (u32)c->nr;
		site->after = u->rip;
	}
	if (site->seen >= DONE || ++site->seen < OFTEN)
		return;
	/* A thread that goes away in the middle leaves the lock behind, and then no more sites are changed. */
	if (__atomic_exchange_n(&STATE->sites_lock, 1, __ATOMIC_ACQUIRE))
		return;
	/* A handler of the program's own might not come back. */
	u64 all = ~our_signals(), mask;
	syscall(__NR_rt_sigprocmask, 0 /* SIG_BLOCK */, &all, &mask, 8);
	site->seen = try_to_change(site, (u32)(site - SITES), u);
	__atomic_store_n(&STATE->sites_lock, 0, __ATOMIC_RELEASE);
	syscall(__NR_rt_sigprocmask, 2 /* SIG_SETMASK */, &mask, 0, 8);
}
