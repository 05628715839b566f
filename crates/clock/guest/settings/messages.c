/*
 * Netlink messages in virtual time: a walk through their nested attributes by the table of attributes.h.
 *
 * What the kernel said is translated where it lies. What a program says to it lies in a copy, which may grow: where
 * a program makes something without saying its times, the kernel takes defaults of its own, in real time, so
 * these are said for it.
 */
#include "settings.h"

#define HEADER 16 /* struct nlmsghdr */
#define FIRST_TYPE 0x10
#define NLM_F_CREATE 0x400
#define TYPE_BITS 0x3fff
#define ALIGNED(n) (((n) + 3) & ~3ull)
#define DEPTH 12

#define NETLINK_ROUTE 0
#define NETLINK_SOCK_DIAG 4
#define RTM_NEWLINK 16
#define RTM_NEWQDISC 36
#define RTM_NEWTCLASS 40
#define AF_INET 2
#define AF_INET6 10

struct walk {
	struct conversion by;
	bool creating;
	u8 *end, *room; /* of all messages, and of the memory that they lie in */
};

static u16 get16(const u8 *at)
{
	return (u16)(at[0] | at[1] << 8);
}

static void put16(u8 *at, u64 value)
{
	at[0] = (u8)value;
	at[1] = (u8)(value >> 8);
}

static u64 get(const u8 *at, u32 bytes, bool big)
{
	u64 value = 0;
	for (u32 i = 0; i < bytes; i++)
		value |= (u64)at[i] << 8 * (big ? bytes - 1 - i : i);
	return value;
}

static void put(u8 *at, u64 value, u32 bytes, bool big)
{
	for (u32 i = 0; i < bytes; i++)
		at[i] = (u8)(value >> 8 * (big ? bytes - 1 - i : i));
}

/* One value of a row; a structure of an older kernel may end before it. */
static void translate(struct walk *w, const struct row *row, u8 *at, u64 bytes)
{
	if ((row->told && w->by.setting) || bytes > 8 || bytes == 0)
		return;
	u64 value = get(at, (u32)bytes, row->big);
	if (row->noted && value && w->by.setting)
		note(row->line, IS_UNTRANSLATED);
	u64 result = converted(&w->by, value, row->unit, (u32)bytes, row->line);
	for (u32 i = 0; w->by.setting && i < settings_rows_count; i++) {
		const struct row *most = settings_rows + i;
		if (most->kind != IS_MOST || most->set != row->set || most->type != row->type || result <= most->value)
			continue;
		/* A value that is too much natively is refused here, too. */
		if (value <= most->value) {
			note(row->line, IS_CUT);
			result = most->value;
		}
	}
	put(at, result, (u32)bytes, row->big);
}

/* The fields of a structure; how long it is. */
static u64 structure(struct walk *w, u32 set, u8 *from, u8 *to)
{
	u64 size = 0;
	for (const struct row *row = settings_rows, *end = row + settings_rows_count; row < end; row++) {
		if (row->set != set || (row->kind != IS_FIELD && row->kind != IS_SIZE))
			continue;
		size = row->value;
		if (row->kind == IS_FIELD && from + row->type + row->bytes <= to)
			translate(w, row, from + row->type, row->bytes);
	}
	return size;
}

/* Makes room for `count` bytes at `at`, where something may lie; false if there is none. */
static bool grow(struct walk *w, u8 *at, u64 count)
{
	if ((u64)(w->room - w->end) < count)
		return false;
	for (u8 *p = w->end; p > at; p--)
		p[count - 1] = p[-1];
	w->end += count;
	return true;
}

static u8 *find(u8 *from, u8 *to, u32 type)
{
	for (u8 *at = from; to - at >= 4; at += ALIGNED(get16(at))) {
		u64 len = get16(at);
		if (len < 4 || len > (u64)(to - at))
			break;
		if ((get16(at + 2) & TYPE_BITS) == type)
			return at;
	}
	return 0;
}

/* Finds a group's entry for a name, which an attribute holds, and for the size of what it stands for; or for others. */
static const struct name *look_up(u32 group, const u8 *attribute, u64 size)
{
	u64 len = get16(attribute) - 4u;
	const u8 *text = attribute + 4;
	for (const struct name *name = settings_names, *end = name + settings_names_count; name < end; name++) {
		if (name->group != group || (name->size && ALIGNED(name->size) != ALIGNED(size)))
			continue;
		u32 i = 0;
		while (i < sizeof name->name && name->name[i] == (i < len ? (char)text[i] : 0))
			i++;
		/* All that have no entry come behind those that have. */
		if (i == sizeof name->name || (!name->name[0] && name->kind == IS_STUCK))
			return name;
	}
	return 0;
}

/* Tells of a thing that a program has made, or changed, if it is one that the user is to know of. */
static void note_name(const struct walk *w, const struct name *name)
{
	if (name && name->noted && w->by.setting)
		note(name->line, IS_UNTRANSLATED);
}

/* Finds the entry for an attribute of `size` bytes by the name that stands beside it, and tells of the thing. */
static const struct name *named(const struct walk *w, const struct row *row, u8 *from, u8 *to, u64 size)
{
	const u8 *names = find(from, to, (u32)row->value);
	const struct name *name = names ? look_up(row->inner, names, size) : 0;
	note_name(w, name);
	return name;
}

/*
 * An attribute whose content has become longer: by how much what is around it has. What fills up its last word may have
 * been counted there already.
 */
static u64 lengthen(u8 *at, u64 *len, const u8 *to, u64 more)
{
	u64 old = ALIGNED(*len);
	if (!more)
		return 0;
	put16(at, *len += more);
	return old <= (u64)(to - at) ? ALIGNED(*len) - old : more;
}

static u64 attributes(struct walk *w, u32 set, u8 *from, u8 *to, u32 depth);

/* A list, in which an element's type is its place. By how much it has grown. */
static u64 list(struct walk *w, u32 set, u8 *from, u8 *to, u32 depth)
{
	u64 grown = 0, len;
	for (u8 *at = from; to - at >= 4; at += ALIGNED(len)) {
		len = get16(at);
		if (len < 4 || len > (u64)(to - at))
			break;
		u64 more = lengthen(at, &len, to, attributes(w, set, at + 4, at + len, depth));
		to += more;
		grown += more;
	}
	return grown;
}

/* Converts the content of an attribute, between `body` and `end`, by a kind and what that says. Returns its growth. */
static u64 inside(struct walk *w, enum kind kind, u32 inner, u8 *body, u8 *end, u32 depth)
{
	switch (kind) {
	case IS_NEST:
		return attributes(w, inner, body, end, depth);
	case IS_LIST:
		return list(w, inner, body, end, depth);
	case IS_STRUCTURE:
		if (inner == IN_TCP_INFO) {
			if (!w->by.setting)
				show_tcp_info((u64)body, (i32)(end - body));
			return 0;
		}
		body += ALIGNED(structure(w, inner, body, end));
		return body < end ? attributes(w, inner, body, end, depth) : 0;
	default:
		return 0;
	}
}

/* An attribute of one set, by the rows that are about it; by how much it has grown. */
static u64 attribute(struct walk *w, u32 set, u8 *at, u8 *from, u8 *to, u32 depth)
{
	u32 type = get16(at + 2) & TYPE_BITS;
	u8 *body = at + 4, *end = at + get16(at);
	for (const struct row *row = settings_rows, *last = row + settings_rows_count; row < last; row++) {
		if (row->set != set || (row->type != type && row->type != ANY))
			continue;
		switch (row->kind) {
		case IS_VALUE:
			translate(w, row, body, (u64)(end - body));
			return 0;
		case IS_STUCK:
			if (w->by.setting)
				note(row->line, IS_UNTRANSLATED);
			return 0;
		case IS_NAMED: {
			const struct name *name = named(w, row, from, to, (u64)(end - body));
			return name ? inside(w, name->kind, name->inner, body, end, depth) : 0;
		}
		case IS_NEST:
		case IS_LIST:
		case IS_STRUCTURE:
			return inside(w, row->kind, row->inner, body, end, depth);
		}
	}
	return 0;
}

static bool has_defaults(u32 set)
{
	for (u32 i = 0; i < settings_rows_count; i++)
		if (settings_rows[i].kind == IS_DEFAULT && settings_rows[i].set == set)
			return true;
	return false;
}

/* An attribute of `bytes` bytes, all 0, at the end of others; 0 if there is no room for it. */
static u8 *append(struct walk *w, u8 *from, u8 **to, u32 type, u64 bytes)
{
	/* Attributes that are not whole words are filled up, but the last attribute of all may lack that. */
	u64 fill = ALIGNED((u64)(*to - from)) - (u64)(*to - from);
	if (*to + fill <= w->end) {
		if (!grow(w, *to + fill, 4 + ALIGNED(bytes)))
			return 0;
	} else if (!grow(w, *to, fill + 4 + ALIGNED(bytes))) {
		return 0;
	}
	u8 *at = *to + fill;
	put16(at, 4 + bytes);
	put16(at + 2, type);
	for (u64 i = 0; i < ALIGNED(bytes); i++)
		at[4 + i] = 0;
	*to = at + 4 + ALIGNED(bytes);
	return at;
}

/* Writes the defaults that a set leaves unsaid; by how much the set has grown. */
static u64 say_defaults(struct walk *w, u32 set, u8 *from, u8 *to, u32 depth)
{
	u8 *before = to;
	for (const struct row *row = settings_rows, *last = row + settings_rows_count; row < last; row++) {
		if (row->set != set || (row->kind != IS_DEFAULT && row->kind != IS_NAMED) || find(from, to, row->type))
			continue;
		if (row->kind == IS_DEFAULT) {
			u8 *at = append(w, from, &to, row->type, row->bytes);
			if (at)
				put(at + 4, converted(&w->by, row->value, row->unit, row->bytes, row->line), row->bytes, false);
			continue;
		}
		const struct name *name = named(w, row, from, to, 0);
		if (!name || name->kind != IS_NEST || !has_defaults(name->inner))
			continue;
		u8 *at = append(w, from, &to, row->type, 0);
		u64 more = at ? attributes(w, name->inner, at + 4, at + 4, depth) : 0;
		if (more)
			put16(at, 4 + more);
		to += more;
	}
	return (u64)(to - before);
}

/* The attributes of a set; by how much they have grown. */
static u64 attributes(struct walk *w, u32 set, u8 *from, u8 *to, u32 depth)
{
	u64 grown = 0, len;
	if (depth == DEPTH)
		return 0;
	for (u8 *at = from; to - at >= 4; at += ALIGNED(len)) {
		len = get16(at);
		if (len < 4 || len > (u64)(to - at))
			return grown;
		u64 more = lengthen(at, &len, to, attribute(w, set, at, from, to, depth + 1));
		to += more;
		grown += more;
	}
	return w->creating ? grown + say_defaults(w, set, from, to, depth + 1) : grown;
}

static const struct messages *known(u32 family, u32 type)
{
	for (u32 i = 0; i < settings_messages_count; i++) {
		const struct messages *m = settings_messages + i;
		if (m->protocol == family && m->first <= type && type <= m->last)
			return m;
	}
	return 0;
}

/* One message, whose header is whole; by how much it has grown. */
static u64 message(struct walk *w, u32 family, u8 *at, u64 len)
{
	u32 type = get16(at + 4);
	const struct messages *m = type < FIRST_TYPE ? 0 : known(family, type);
	if (!m)
		return 0;
	if (m->stuck) {
		if (w->by.setting)
			note(m->line, IS_UNTRANSLATED);
		return 0;
	}
	u8 *head = at + HEADER, *from = head + ALIGNED(m->header), *to = at + len;
	if (from > to)
		return 0;
	/* Sockets of other families are told of by the same message. */
	if (family == NETLINK_SOCK_DIAG && *head != AF_INET && *head != AF_INET6)
		return 0;
	w->creating = w->by.setting && family == NETLINK_ROUTE && get16(at + 6) & NLM_F_CREATE &&
		      (type == RTM_NEWLINK || type == RTM_NEWQDISC || type == RTM_NEWTCLASS);
	structure(w, m->set, head, from);
	return attributes(w, m->set, from, to, 0);
}

void translate_named(const struct conversion *by, u32 group, const char *text, u32 len, u8 *from, u64 size)
{
	struct walk w = { .by = *by };
	u8 attribute[4 + 32] = { 0 };
	u32 i = 0;
	for (; i < len && i < 31 && text[i]; i++)
		attribute[4 + i] = (u8)text[i];
	put16(attribute, 4 + i);
	const struct name *name = look_up(group, attribute, size);
	if (name && name->kind == IS_STRUCTURE)
		structure(&w, name->inner, from, from + size);
	else
		note_name(&w, name);
}

void note_txtime(void)
{
	struct conversion by = conversion(true);
	if (by.num != by.den)
		translate_named(&by, IN_SOCKET_OPTIONS, "txtime", 6, 0, 0);
}

u64 translate_messages(u32 family, bool setting, u8 *messages, u64 len, u64 room)
{
	struct walk w = { .by = conversion(setting), .end = messages + len, .room = messages + room };
	if (w.by.num == w.by.den)
		return len;
	for (u8 *at = messages; w.end - at >= HEADER;) {
		u64 here = get(at, 4, false);
		if (here < HEADER || here > (u64)(w.end - at))
			break;
		u64 more = message(&w, family, at, here);
		if (more)
			put(at, here += more, 4, false);
		at += ALIGNED(here);
	}
	return (u64)(w.end - messages);
}
