/* The tables that attributes.h and sysctls.h say, with the numbers and structures of the kernel's headers. */
#include "rows.h"

#include <linux/gen_stats.h>
#include <linux/if_addr.h>
#include <linux/if_bridge.h>
#include <linux/if_link.h>
#include <linux/inet_diag.h>
#include <linux/neighbour.h>
#include <linux/netfilter/ipset/ip_set.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nf_tables_compat.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <linux/netfilter/nfnetlink_cttimeout.h>
#include <linux/netfilter/xt_IDLETIMER.h>
#include <linux/netfilter/xt_hashlimit.h>
#include <linux/netfilter/xt_limit.h>
#include <linux/netfilter/xt_recent.h>
#include <linux/netlink.h>
#include <linux/nexthop.h>
#include <linux/pkt_cls.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/tc_act/tc_gact.h>
#include <linux/tc_act/tc_mirred.h>
#include <linux/xfrm.h>
#include <stddef.h>

#define SUBSYSTEM(number, message) ((number) << 8 | (message))
#define NFTABLES(message) SUBSYSTEM(NFNL_SUBSYS_NFTABLES, message)
#define CTNETLINK(message) SUBSYSTEM(NFNL_SUBSYS_CTNETLINK, message)
#define EXPECTATIONS(message) SUBSYSTEM(NFNL_SUBSYS_CTNETLINK_EXP, message)
#define CTTIMEOUTS(message) SUBSYSTEM(NFNL_SUBSYS_CTNETLINK_TIMEOUT, message)
#define IPSETS(message) SUBSYSTEM(NFNL_SUBSYS_IPSET, message)

#define NFGENMSG sizeof(struct nfgenmsg)

#define SET 0
#define TOLD 1
#define SIZE_OF(type, member) sizeof(((struct type *)0)->member)

#define MESSAGES(...)
#define STUCK_MESSAGES(...)
#define NAME(...)
#define STUCK_NAME(...)
#define NOTED_NAME(...)
#define PLAIN_NAME(...)
#define ROW(...) { .line = __LINE__, __VA_ARGS__ },
#define VALUE(in, attribute, is, who) \
	ROW(.set = IN_##in, .kind = IS_VALUE, .type = attribute, .unit = UNIT_##is, .told = who)
#define BIG(in, attribute, is, who) \
	ROW(.set = IN_##in, .kind = IS_VALUE, .type = attribute, .unit = UNIT_##is, .told = who, .big = 1)
#define NEST(in, attribute, of) ROW(.set = IN_##in, .kind = IS_NEST, .type = attribute, .inner = IN_##of)
#define EACH(in, attribute, of) ROW(.set = IN_##in, .kind = IS_LIST, .type = attribute, .inner = IN_##of)
#define HOLDS(in, attribute, of) ROW(.set = IN_##in, .kind = IS_STRUCTURE, .type = attribute, .inner = IN_##of)
#define NAMED(in, names, attribute, of) \
	ROW(.set = IN_##in, .kind = IS_NAMED, .type = attribute, .inner = IN_##of, .value = names)
#define FIELD(in, structure, member, is, who) \
	ROW(.set = IN_##in, .kind = IS_FIELD, .type = offsetof(struct structure, member), .unit = UNIT_##is, .told = who, \
	    .bytes = SIZE_OF(structure, member), .value = sizeof(struct structure))
#define NOTED_FIELD(in, structure, member, is, what) \
	ROW(.set = IN_##in, .kind = IS_FIELD, .type = offsetof(struct structure, member), .unit = UNIT_##is, \
	    .bytes = SIZE_OF(structure, member), .value = sizeof(struct structure), .noted = 1)
#define WIDE(in, structure, member, is, who) \
	ROW(.set = IN_##in, .kind = IS_FIELD, .type = offsetof(struct structure, member), .unit = UNIT_##is, .told = who, \
	    .bytes = 8, .value = sizeof(struct structure))
#define SIZE(in, structure) ROW(.set = IN_##in, .kind = IS_SIZE, .value = sizeof(struct structure))
#define DEFAULT(in, attribute, size, number, is) \
	ROW(.set = IN_##in, .kind = IS_DEFAULT, .type = attribute, .bytes = size, .value = number, .unit = UNIT_##is)
#define MOST(in, attribute, number) ROW(.set = IN_##in, .kind = IS_MOST, .type = attribute, .value = number)
#define STUCK(in, attribute, what) ROW(.set = IN_##in, .kind = IS_STUCK, .type = attribute)
const struct row settings_rows[] = {
#include "attributes.h"
};
const unsigned int settings_rows_count = sizeof settings_rows / sizeof *settings_rows;

#undef ROW
#define ROW(...)
#undef NAME
#define NAME(of, text, bytes, what, in) \
	{ .line = __LINE__, .group = IN_##of, .name = text, .size = bytes, .kind = what, .inner = IN_##in },
#undef STUCK_NAME
#define STUCK_NAME(of, text, what) { .line = __LINE__, .group = IN_##of, .name = text, .kind = IS_STUCK, .noted = 1 },
#undef NOTED_NAME
#define NOTED_NAME(of, text, what, in, why) \
	{ .line = __LINE__, .group = IN_##of, .name = text, .kind = what, .inner = IN_##in, .noted = 1 },
#undef PLAIN_NAME
#define PLAIN_NAME(of, text) { .line = __LINE__, .group = IN_##of, .name = text, .kind = IS_SIZE },
const struct name settings_names[] = {
#include "attributes.h"
};
const unsigned int settings_names_count = sizeof settings_names / sizeof *settings_names;

#undef NAME
#define NAME(...)
#undef STUCK_NAME
#define STUCK_NAME(...)
#undef NOTED_NAME
#define NOTED_NAME(...)
#undef PLAIN_NAME
#define PLAIN_NAME(...)
#undef MESSAGES
#define MESSAGES(family, from, to, head, of) { __LINE__, family, from, to, head, IN_##of, 0 },
#undef STUCK_MESSAGES
#define STUCK_MESSAGES(family, from, to, what) { __LINE__, family, from, to, 0, 0, 1 },
const struct messages settings_messages[] = {
#include "attributes.h"
};
const unsigned int settings_messages_count = sizeof settings_messages / sizeof *settings_messages;

#define SYSCTL(name, is, limit) { __LINE__, UNIT_##is, limit, name },
const struct sysctl settings_sysctls[] = {
#include "sysctls.h"
};
const unsigned int settings_sysctls_count = sizeof settings_sysctls / sizeof *settings_sysctls;

#define DECIMAL 0
#define TIMER 1
#define LISTING(name, column, form, is) { name, column, form, UNIT_##is },
const struct listing settings_listings[] = {
#include "listings.h"
};
const unsigned int settings_listings_count = sizeof settings_listings / sizeof *settings_listings;
