/*
 * poll, select and epoll in every form.
 *
 * With a time-out of 0 they look, and do not wait. A program that does nothing else until it finds something (MPI's
 * ranks do) always wants the core, and its node's clock is ahead of the run's as long as it has it: by up to a slice
 * over its share. What comes meanwhile it would see that late. So a look that finds nothing, on a node that is ahead,
 * lasts until the run's clock is where the node's is already: on the target it would have found what comes until then.
 * To the program it is over at once, and while it lasts the node uses nothing of the core. docs/looks.md has the sizes.
 */
#include "dilation.h"

/* A time-out and a signal mask as these calls take them; either may be absent. */
struct wait {
	bool timed, masked;
	u64 given; /* the time-out as given, virtual ns */
	u64 lead; /* of a look: for how long it waits, real ns; 0 at first, and for the last look */
	bool looked; /* the first look is over, which does not wait */
	struct deadline end;
	u64 mask;
};

static void take(struct wait *w, u64 given)
{
	w->timed = true;
	w->given = given;
	/* A look has no end to be computed. */
	if (given)
		w->end = after(given);
}

static long take_timespec(struct wait *w, u64 from)
{
	struct timespec t;
	if (!from)
		return 0;
	if (!read_user(&t, from, sizeof t))
		return -EFAULT;
	if (!valid(&t))
		return -EINVAL;
	take(w, to_ns(&t));
	return 0;
}

static void take_milliseconds(struct wait *w, u64 timeout)
{
	i32 ms = (i32)timeout;
	if (ms >= 0)
		take(w, (u64)ms * 1000000);
}

static long take_mask(struct wait *w, u64 from, u64 size)
{
	w->masked = from != 0;
	return from ? read_mask(&w->mask, from, size) : 0;
}

/* The real time left, for the kernel; of a look, what it is to wait. */
static struct timespec *rest(struct wait *w, struct timespec *room)
{
	if (!w->timed)
		return 0;
	*room = w->given ? real_rest(&w->end) : from_ns(w->lead);
	return room;
}

static bool look_again(struct wait *w, long result)
{
	if (w->looked) {
		/* A signal has ended the wait, which natively there is none to end. With a mask, it was to be taken here. */
		bool interrupted = w->lead && result == -EINTR && !w->masked;
		w->lead = 0;
		return interrupted;
	}
	w->looked = true;
	return result == 0 && (w->lead = lead_of_look()) != 0;
}

static bool again(struct wait *w, long result)
{
	if (!w->timed)
		return false;
	return w->given ? result == 0 && not_yet(&w->end) : look_again(w, result);
}

static u64 *mask_of(struct wait *w)
{
	return w->masked ? &w->mask : 0;
}

/* ppoll and pselect6 write back what is left, and do not mind if they cannot. */
static void give_back(struct wait *w, u64 to)
{
	struct timespec t = from_ns(w->given ? virtual_rest(&w->end) : 0);
	if (w->timed)
		write_user(to, &t, sizeof t);
}

static long do_ppoll(struct wait *w, struct call *c)
{
	long result;
	struct timespec room;
	do
		result = syscall(__NR_ppoll, c->a[0], c->a[1], rest(w, &room), mask_of(w), 8);
	while (again(w, result));
	return result;
}

long call_poll(struct call *c)
{
	struct wait w = { 0 };
	take_milliseconds(&w, c->a[2]);
	return do_ppoll(&w, c);
}

long call_ppoll(struct call *c)
{
	struct wait w = { 0 };
	long wrong = take_timespec(&w, c->a[2]);
	if (!wrong)
		wrong = take_mask(&w, c->a[3], c->a[4]);
	if (wrong)
		return wrong;
	long result = do_ppoll(&w, c);
	give_back(&w, c->a[2]);
	return result;
}

/* The kernel clears the sets when time is up, so a second wait needs them as they were. */
#define SET_WORDS 16
struct sets {
	u64 words[3][SET_WORDS];
	u64 bytes;
};

static bool save(struct sets *s, struct call *c)
{
	i32 n = (i32)c->a[0];
	s->bytes = n > 0 ? ((u64)n + 63) / 64 * 8 : 0;
	if (n < 0 || s->bytes > sizeof s->words[0])
		return false;
	for (int i = 0; i < 3; i++)
		if (c->a[1 + i] && s->bytes && !read_user(s->words[i], c->a[1 + i], s->bytes))
			return false;
	return true;
}

static void restore(struct sets *s, struct call *c)
{
	for (int i = 0; i < 3; i++)
		if (c->a[1 + i] && s->bytes)
			write_user(c->a[1 + i], s->words[i], s->bytes);
}

static long do_pselect(struct wait *w, struct call *c)
{
	struct {
		u64 *mask;
		u64 size;
	} set = { mask_of(w), 8 };
	struct sets saved;
	bool repeatable = save(&saved, c);
	struct timespec room;
	for (;;) {
		long result =
			syscall(__NR_pselect6, c->a[0], c->a[1], c->a[2], c->a[3], rest(w, &room), &set);
		if (!repeatable || !again(w, result))
			return result;
		restore(&saved, c);
	}
}

long call_select(struct call *c)
{
	struct wait w = { 0 };
	struct timeval t;
	if (!read_user(&t, c->a[4], sizeof t))
		return -EFAULT;
	/* select, unlike the others, takes any number of microseconds. */
	if (t.sec < 0 || t.usec < 0)
		return -EINVAL;
	u64 sec = (u64)t.sec + (u64)t.usec / 1000000;
	struct timespec ts = { (i64)sec, (t.usec % 1000000) * 1000 };
	take(&w, to_ns(&ts));
	long result = do_pselect(&w, c);
	u64 left = w.given ? virtual_rest(&w.end) : 0;
	t.sec = (i64)(left / NS);
	t.usec = (i64)(left % NS / 1000);
	write_user(c->a[4], &t, sizeof t);
	return result;
}

long call_pselect6(struct call *c)
{
	struct wait w = { 0 };
	struct {
		u64 mask, size;
	} set = { 0, 8 };
	if (c->a[5] && !read_user(&set, c->a[5], sizeof set))
		return -EFAULT;
	long wrong = take_timespec(&w, c->a[4]);
	if (!wrong)
		wrong = take_mask(&w, set.mask, set.size);
	if (wrong)
		return wrong;
	long result = do_pselect(&w, c);
	give_back(&w, c->a[4]);
	return result;
}

static long do_epoll(struct wait *w, struct call *c)
{
	long result;
	struct timespec room;
	do
		result = syscall(__NR_epoll_pwait2, c->a[0], c->a[1], c->a[2], rest(w, &room), mask_of(w), 8);
	while (again(w, result));
	return result;
}

long call_epoll_wait(struct call *c)
{
	struct wait w = { 0 };
	take_milliseconds(&w, c->a[3]);
	return do_epoll(&w, c);
}

long call_epoll_pwait(struct call *c)
{
	struct wait w = { 0 };
	long wrong = take_mask(&w, c->a[4], c->a[5]);
	if (wrong)
		return wrong;
	take_milliseconds(&w, c->a[3]);
	return do_epoll(&w, c);
}

long call_epoll_pwait2(struct call *c)
{
	struct wait w = { 0 };
	long wrong = take_timespec(&w, c->a[3]);
	if (!wrong)
		wrong = take_mask(&w, c->a[4], c->a[5]);
	return wrong ? wrong : do_epoll(&w, c);
}
