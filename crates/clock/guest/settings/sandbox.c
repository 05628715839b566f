/*
 * Filters that a program installs itself: they judge what the program calls, not what the image does on its behalf.
 *
 * The kernel asks all filters of a thread about each call and does what the strictest says: end the thread, a signal,
 * an error, and at last "go on". So where a call traps, the program has been ended or got its own signal already, if
 * its filter says so. Left to do is this:
 *
 *  - The image's own calls must pass: those by which a trapped call is carried out, and the return from its handler.
 *    The filter is installed with every verdict but "allow" replaced by a jump to a tail that looks where the call
 *    comes from. Verdicts of "allow" stay as they are, and so the kernel's memory of what is always allowed.
 *  - The bootstrap (bootstrap.S) must pass, which is not in the image: it asks for the memfd, and maps it at its
 *    place.
 *  - An error is weaker than our signal, and the call has trapped although the filter forbids it. Which of its filters
 *    a thread has, it knows only itself, and the program before an exec may have installed them. So the kernel is
 *    asked: the call is made once more, from an address of the image that says to filter.c not to carry it out and to
 *    the tail that it is to be judged. A tracer, or an answer from somewhere else, is weaker than filter.c's word, and
 *    is turned into ENOSYS, which both mean where there is nobody to give them. A tracer is told then (tracer.c).
 *  - A listener of the program's own is kept by the injector (settings/listener.c says how): the filter has none, and
 *    where it would notify, it traps.
 *  - Sites (sites.c) do not ask the kernel. In a process with filters they go back to the syscall instruction.
 *
 * A filter that looks at the instruction pointer itself is not asked: it would judge the image's.
 *
 * This is for programs that mean well: who jumps into the image evades his own filter.
 */
#include "../dilation.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>

/* The most instructions that the kernel takes. */
#define MOST 4096
/* A word of a filter's memory. It has come to its verdict, and needs it no more. */
#define VERDICT 15
/* Linux 5.19 */
#define WAIT_KILLABLE_RECV (1ull << 5)
#define LISTENED (*(u64 *)DIORAMA_LISTENED)
#define FIELD(name) offsetof(struct seccomp_data, name)
#define POINTER FIELD(instruction_pointer)

#define LOAD(offset) { BPF_LD | BPF_W | BPF_ABS, 0, 0, offset }
#define SKIP(k, if_equal, if_not) { BPF_JMP | BPF_JEQ | BPF_K, if_equal, if_not, k }
#define VERDICT_OF(what) { BPF_RET | BPF_K, 0, 0, what }
#define REMEMBERED { BPF_LD | BPF_MEM, 0, 0, VERDICT }

/*
 * What comes first looks at number and architecture alone, but for one call, so that the kernel finds out what always
 * passes. It ends as a filter is begun: with 0 loaded.
 */
static const struct sock_filter head[] = {
	LOAD(FIELD(nr)),
	SKIP(DIORAMA_CALL_MEMFD, 0, 1),
	VERDICT_OF(SECCOMP_RET_ALLOW),
	SKIP(__NR_rt_sigprocmask, 0, 3),
	LOAD(FIELD(args[0])),
	SKIP(DIORAMA_ASK, 0, 1),
	VERDICT_OF(SECCOMP_RET_ERRNO | DIORAMA_SANDBOXED),
	{ BPF_ALU | BPF_AND | BPF_K, 0, 0, 0 },
};
#define TOLD 6 /* which of these says so */

/* The end of a filter, with a verdict loaded that is not "allow". */
static const struct sock_filter tail[] = {
	{ BPF_ST, 0, 0, VERDICT },
	LOAD(POINTER + 4),
	SKIP(DIORAMA_ADDRESS_HIGH, 0, 16),
	LOAD(POINTER),
	SKIP((u32)(DIORAMA_IMAGE + DIORAMA_TELL), 12, 0),
	SKIP((u32)(DIORAMA_IMAGE + DIORAMA_JUDGE), 2, 0),
	SKIP((u32)(DIORAMA_IMAGE + DIORAMA_JUDGE_AGAIN), 3, 0),
	VERDICT_OF(SECCOMP_RET_ALLOW),
	{ BPF_LDX | BPF_IMM, 0, 0, SECCOMP_RET_ERRNO | ENOSYS },
	{ BPF_JMP | BPF_JA, 0, 0, 1 },
	{ BPF_LDX | BPF_IMM, 0, 0, SECCOMP_RET_ALLOW },
	REMEMBERED,
	{ BPF_ALU | BPF_AND | BPF_K, 0, 0, SECCOMP_RET_ACTION_FULL },
	SKIP(SECCOMP_RET_TRACE, 1, 0),
	SKIP(SECCOMP_RET_USER_NOTIF, 0, 2),
	{ BPF_MISC | BPF_TXA, 0, 0, 0 },
	{ BPF_RET | BPF_A, 0, 0, 0 },
	REMEMBERED,
	{ BPF_RET | BPF_A, 0, 0, 0 },
	/* The bootstrap maps the image. */
	LOAD(FIELD(nr)),
	SKIP(__NR_mmap, 0, 5),
	LOAD(FIELD(args[0]) + 4),
	SKIP(DIORAMA_ADDRESS_HIGH, 0, 3),
	LOAD(FIELD(args[0])),
	SKIP((u32)DIORAMA_IMAGE, 0, 1),
	VERDICT_OF(SECCOMP_RET_ALLOW),
	REMEMBERED,
	{ BPF_RET | BPF_A, 0, 0, 0 },
};
#define TELLS 4 /* which of these looks for DIORAMA_TELL; the next ones for DIORAMA_JUDGE and DIORAMA_JUDGE_AGAIN */
#define WEAK_AGAIN 10 /* which says what becomes of a weak verdict there */
#define LENGTH(part) (sizeof part / sizeof *part)

/* The end of a filter that has a listener, in place of the tail's last two. */
static const struct sock_filter notifying[] = {
	REMEMBERED,
	{ BPF_ALU | BPF_AND | BPF_K, 0, 0, SECCOMP_RET_ACTION_FULL },
	SKIP(SECCOMP_RET_USER_NOTIF, 0, 1),
	VERDICT_OF(SECCOMP_RET_TRAP), /* with the listener's number */
	REMEMBERED,
	{ BPF_RET | BPF_A, 0, 0, 0 },
};
#define NOTIFIED 3

/* A filter as it is installed: head, the program's own, a stub for each of its verdicts, tail. And the program's. */
struct rewritten {
	struct sock_filter code[MOST], program[MOST];
};

static bool returns(const struct sock_filter *i)
{
	return i->code == (BPF_RET | BPF_A) || (i->code == (BPF_RET | BPF_K) && i->k != SECCOMP_RET_ALLOW);
}

static bool looks_at_pointer(const struct sock_filter *i)
{
	return i->code == (BPF_LD | BPF_W | BPF_ABS) && i->k - POINTER < 8;
}

/* Whether the verdict is, or may be, one that is weaker than filter.c's signal, and not "allow". */
static bool is_weak(const struct sock_filter *i)
{
	u32 action = i->k & SECCOMP_RET_ACTION_FULL;
	return i->code == (BPF_RET | BPF_A) || (i->code == (BPF_RET | BPF_K) &&
						(action == SECCOMP_RET_ERRNO || action == SECCOMP_RET_USER_NOTIF ||
						 action == SECCOMP_RET_TRACE));
}

/* Whether instruction `at` leads out of the program: to what comes behind, where the kernel would not find it wrong. */
static bool leads_out(const struct sock_filter *program, u32 length, u32 at)
{
	const struct sock_filter *i = program + at;
	u32 left = length - at - 1;
	if (i->code == (BPF_JMP | BPF_JA))
		return i->k >= left;
	if (BPF_CLASS(i->code) == BPF_JMP)
		return i->jt >= left || i->jf >= left;
	return !left && BPF_CLASS(i->code) != BPF_RET;
}

/* The kernel ends a process for what it does not know, but weighs it by its number. */
static u32 known(u32 verdict)
{
	switch (verdict & SECCOMP_RET_ACTION_FULL) {
	case SECCOMP_RET_KILL_THREAD:
	case SECCOMP_RET_TRAP:
	case SECCOMP_RET_ERRNO:
	case SECCOMP_RET_USER_NOTIF:
	case SECCOMP_RET_TRACE:
	case SECCOMP_RET_LOG:
	case SECCOMP_RET_ALLOW:
		return verdict;
	default:
		return SECCOMP_RET_KILL_PROCESS;
	}
}

static void jump(struct sock_filter *code, u32 from, u32 to)
{
	code[from] = (struct sock_filter){ BPF_JMP | BPF_JA, 0, 0, to - from - 1 };
}

/*
 * How long the whole is; 0: too long. *judges: whether it has to be asked about trapped calls. *listened: the number of
 * its listener, or 0.
 */
static u32 rewrite(struct rewritten *r, u32 length, bool *judges, u32 *listened)
{
	struct sock_filter *code = r->code;
	const u32 own = LENGTH(head), stubs = own + length, most = MOST - LENGTH(tail) - LENGTH(notifying);
	bool weak = false, by_pointer = false;
	u32 at = stubs;
	if (stubs > most)
		return 0;
	copy(code, head, sizeof head);
	copy(code + own, r->program, length * sizeof *code);
	/* Each verdict becomes a jump to a stub, which loads it, or where it is loaded already to the tail. */
	for (u32 i = 0; i < length; i++) {
		const struct sock_filter *p = r->program + i;
		weak |= is_weak(p);
		by_pointer |= looks_at_pointer(p);
		if (!returns(p) || p->code == (BPF_RET | BPF_A))
			continue;
		u32 stub = stubs, verdict = known(p->k);
		while (stub < at && code[stub].k != verdict)
			stub += 2;
		if (stub == at) {
			if (at + 2 > most)
				return 0;
			code[at] = (struct sock_filter){ BPF_LD | BPF_IMM, 0, 0, verdict };
			at += 2;
		}
		jump(code, own + i, stub);
	}
	/* And on to the tail. */
	for (u32 stub = stubs; stub < at; stub += 2)
		jump(code, stub + 1, at);
	for (u32 i = 0; i < length; i++)
		if (r->program[i].code == (BPF_RET | BPF_A))
			jump(code, own + i, at);
	copy(code + at, tail, sizeof tail);
	*judges = weak && !by_pointer;
	if (by_pointer)
		code[at + TELLS].k = code[at + TELLS + 1].k = code[at + TELLS + 2].k = 0;
	if (*judges || STATE->judged)
		code[TOLD].k = SECCOMP_RET_ERRNO | DIORAMA_JUDGED;
	u32 end = at + LENGTH(tail);
	if (*listened) {
		*listened |= by_pointer ? DIORAMA_LISTENER_UNJUDGED : 0;
		/* Nobody listens to what is installed: ENOSYS, unless another filter has an error. */
		code[at + WEAK_AGAIN].k = SECCOMP_RET_USER_NOTIF;
		end -= 2;
		copy(code + end, notifying, sizeof notifying);
		code[end + NOTIFIED].k |= *listened;
		end += LENGTH(notifying);
	}
	u32 listens = *listened ? *listened : LISTENED;
	if (listens)
		code[TOLD].k = SECCOMP_RET_ERRNO | (DIORAMA_LISTENED_TO + listens - DIORAMA_LISTENER_DATA);
	return end;
}

/* struct sock_fprog */
struct filter {
	u16 length;
	u64 code;
};

/* Installs `filter` as it is to be. Where the program's is wrong it is shown to the kernel, which says in what. */
static long install(struct call *c, const struct filter *filter, struct rewritten *r)
{
	u64 size = filter->length * sizeof *r->program;
	for (u64 done = 0; done < size; done += 0x1000)
		if (!read_user((u8 *)r->program + done, filter->code + done, size - done < 0x1000 ? size - done : 0x1000))
			return as_is(c);
	for (u32 i = 0; i < filter->length; i++)
		if (leads_out(r->program, filter->length, i))
			return as_is(c);
	bool judges;
	u32 listened = 0;
	u64 flags = c->a[1];
	long listener = -1;
	if (c->nr == __NR_seccomp && (flags & SECCOMP_FILTER_FLAG_NEW_LISTENER)) {
		listener = make_listener(flags, &listened);
		if (listener < 0)
			return listener;
		flags &= ~(SECCOMP_FILTER_FLAG_NEW_LISTENER | WAIT_KILLABLE_RECV);
	}
	struct filter ours = { (u16)rewrite(r, filter->length, &judges, &listened), (u64)r->code };
	long result = -EINVAL;
	if (ours.length) {
		/* Before it holds: another thread may get it by the same call. */
		STATE->sites_closed = STATE->sandboxed = true;
		STATE->judged |= judges || listened;
		if (listened)
			LISTENED = listened;
		result = syscall(c->nr, c->a[0], flags, &ours, c->a[3], c->a[4]);
	}
	if (listener < 0)
		return result;
	if (!result)
		return listener;
	LISTENED = 0;
	syscall(__NR_close, listener);
	return result;
}

/* prctl(PR_SET_SECCOMP, mode, filter), seccomp(operation, flags, filter) */
long call_seccomp(struct call *c)
{
	bool by_prctl = c->nr == __NR_prctl;
	u32 how = (u32)c->a[by_prctl ? 1 : 0];
	struct filter filter;
	if (how == (by_prctl ? SECCOMP_MODE_STRICT : SECCOMP_SET_MODE_STRICT))
		return be_strict(c);
	if (how != (by_prctl ? SECCOMP_MODE_FILTER : SECCOMP_SET_MODE_FILTER) || !read_user(&filter, c->a[2], sizeof filter) ||
	    !filter.length || filter.length > MOST)
		return as_is(c);
	long made = syscall(__NR_mmap, 0, sizeof(struct rewritten), 3 /* READ | WRITE */, 0x22 /* PRIVATE | ANONYMOUS */, -1,
			    0);
	if (made < 0 && made > -4096)
		return -ENOMEM;
	long result = install(c, &filter, (struct rewritten *)made);
	syscall(__NR_munmap, made, sizeof(struct rewritten));
	return result;
}

void find_filters(void)
{
	long told = syscall(__NR_rt_sigprocmask, DIORAMA_ASK, 0, 0, 8);
	u64 listened = (u64)(-told - DIORAMA_LISTENED_TO);
	if (listened < 2 * DIORAMA_LISTENERS)
		LISTENED = DIORAMA_LISTENER_DATA + listened;
	STATE->judged = told == -DIORAMA_JUDGED || LISTENED;
	STATE->sandboxed = STATE->judged || told == -DIORAMA_SANDBOXED;
	STATE->sites_closed |= STATE->sandboxed;
}

__asm__(".section .judge, \"ax\", @progbits\n"
	"judge_from:\n"
	"	syscall\n"
	"	ret\n"
	"judge_again_from:\n"
	"	syscall\n"
	"	ret\n"
	"carry_out_from:\n"
	"	syscall\n"
	"	ret\n"
	".hidden tell_from\n"
	".globl tell_from\n"
	"tell_from:\n"
	"	syscall\n"
	"	ret\n"
	".text\n"
	".hidden make_from\n"
	".globl make_from\n"
	".type make_from, @function\n"
	"make_from:\n"
	"	mov %esi, %ecx\n"
	LOAD_CALL
	"	test %cl, %cl\n"
	"	jz judge_from\n"
	"	dec %cl\n"
	"	jz judge_again_from\n"
	"	jmp carry_out_from\n");
_Static_assert(JUDGE == 0 && JUDGE_AGAIN == 1, "make_from says where");

bool refused(struct call *c, long *result)
{
	*result = make_from(c, JUDGE);
	if (*result == -ENOSYS) {
		/* Perhaps a tracer is to be told, which any error of an earlier filter outweighs. */
		long error = make_from(c, JUDGE_AGAIN);
		if (error == -DIORAMA_NOT_JUDGED)
			return answered_by_tracer(c, result);
		*result = error;
	}
	return *result != -DIORAMA_NOT_JUDGED;
}
