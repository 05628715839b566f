/* The interface between the files of this folder: settings of the kernel that are times or rates, in virtual time. */
#ifndef DIORAMA_SETTINGS_H
#define DIORAMA_SETTINGS_H

#include "../dilation.h"
#include "rows.h"

/* Between virtual and real, by the TDF. */
struct conversion {
	u64 num, den;
	bool setting; /* to the kernel, not from it */
};
struct conversion conversion(bool setting);
/* An integer of so many bytes. 0 and all ones are no time. `id` is whose it is, for a note if it had to be cut. */
u64 converted(const struct conversion *c, u64 value, enum unit unit, u32 bytes, u32 id);

/* Tells the harness that a setting is not what the program takes it for (src/settings.rs). */
enum why { IS_UNTRANSLATED, IS_CUT };
#define NOTE_OF_SYSCTL 0x10000 /* and a line of sysctls.h; else one of attributes.h */
void note(u32 id, enum why why);

/* Netlink messages, `len` bytes of them in memory of `room` bytes, translated in place; how many there are then. */
u64 translate_messages(u32 family, bool setting, u8 *messages, u64 len, u64 room);

/* Converts a structure by what a group of attributes.h says of its name. */
void translate_named(const struct conversion *by, u32 group, const char *name, u32 len, u8 *from, u64 size);
/* The program's memory, however long; false for a bad pointer. */
bool read_long(u8 *to, u64 from, u64 len);

/* Has reading and writing a descriptor trap, and gives the number that it has then. */
long trap_descriptor(long fd);
/* Has writing to the standard output trap, which a shell makes of a file that it writes to. */
void trap_output(void);

/* Whether a path, as the kernel names it, is of listings.h, and a memfd of its text in virtual time. */
bool is_listing(const char *path);
long listing_text(long fd, const char *path);

/* A call that reads from or writes to a file of sysctls.h; false if it is none. */
bool sysctl_call(struct call *c, long *result);

#endif
