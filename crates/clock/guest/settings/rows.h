/*
 * The form of the tables of settings. It is apart because tables.c has headers that know of other times than ours.
 */
#ifndef DIORAMA_ROWS_H
#define DIORAMA_ROWS_H

enum unit {
	NO_UNIT,
	/* Times, */
	UNIT_NS,
	UNIT_US,
	UNIT_MS,
	UNIT_S,
	UNIT_CS,
	UNIT_TICKS,
	UNIT_PER_10000,
	/* rates, */
	UNIT_BYTES_S,
	UNIT_PACKETS_S,
	UNIT_COUNT,
	UNIT_PERIOD,
	/* and instants. */
	UNIT_DATE_NS,
	UNIT_UPTIME_CS,
};

/* Sets of attributes, structures and groups of names: attributes.h says what is in each. */
enum set {
	IN_QDISC, IN_CLASSIFIER, IN_ACTION_TABLE, IN_QDISCS, IN_OLD_STATS, IN_STATS, IN_CLASSIFIERS, IN_ACTION,
	IN_ACTIONS, IN_ESTIMATE, IN_ESTIMATE64, IN_TBF, IN_TBF_PARAMETERS, IN_HTB, IN_HTB_PARAMETERS, IN_HTB_ROOT,
	IN_HFSC, IN_HFSC_CURVE, IN_NETEM, IN_NETEM_RATE, IN_NETEM_SLOT, IN_FQ, IN_CODEL, IN_FQ_CODEL, IN_PIE, IN_FQ_PIE,
	IN_CAKE, IN_HHF, IN_SFQ, IN_ETF, IN_ETF_PARAMETERS, IN_POLICE, IN_POLICE_PARAMETERS, IN_ACTION_TIMES, IN_GACT,
	IN_MIRRED, IN_U32, IN_FLOWER, IN_MATCHALL, IN_BASIC, IN_FW, IN_ROUTE4, IN_BPF, IN_FLOW, IN_CGROUP, IN_ADDRESS,
	IN_ADDRESS_LIFE, IN_ROUTE, IN_ROUTE_LIFE, IN_METRICS, IN_NEXTHOP, IN_NEXTHOP_GROUP, IN_NEXTHOP_BUCKET,
	IN_BUCKET, IN_NEIGHBOUR, IN_NEIGHBOUR_AGE, IN_NEIGHBOURS, IN_NEIGHBOURS_STATE, IN_NEIGHBOUR_TIMES, IN_PREFIX,
	IN_PREFIX_LIFE, IN_LINK, IN_LINK_KIND, IN_LINKS, IN_PORTS, IN_BRIDGE, IN_BRIDGE_PORT, IN_VXLAN, IN_BOND, IN_MDB,
	IN_MDB_ENTRY, IN_MDB_INFO, IN_VLAN, IN_VLAN_OPTIONS, IN_SOCKETS, IN_TCP_INFO, IN_VEGAS, IN_BBR, IN_RULE,
	IN_NFSET, IN_ELEMENTS, IN_OBJECT, IN_EXPRESSION, IN_EXPRESSIONS, IN_LIMIT, IN_DYNSET, IN_LAST, IN_MATCH,
	IN_MATCHES, IN_TARGET, IN_TARGETS, IN_ELEMENT, IN_OBJECTS, IN_OBJECT_TIMEOUTS, IN_OBJECT_EXPECTATION,
	IN_PROTOCOL_TIMEOUTS, IN_XT_LIMIT, IN_XT_HASHLIMIT1, IN_XT_HASHLIMIT2, IN_XT_HASHLIMIT3, IN_XT_RECENT,
	IN_XT_IDLETIMER, IN_CONNECTION, IN_CONNECTION_TIMES, IN_EXPECTATION, IN_TIMEOUTS, IN_IPSET, IN_IPSET_DATA,
	IN_FAMILIES, IN_FAMILY6, IN_CACHE6, IN_SOCKET_OPTIONS,
};

enum kind {
	IS_VALUE,
	IS_NEST,
	IS_LIST,
	IS_STRUCTURE, /* and attributes behind it */
	IS_NAMED,
	IS_FIELD,
	IS_SIZE,
	IS_DEFAULT,
	IS_MOST,
	IS_STUCK,
};

/* A line of attributes.h. Of fields, `type` is the offset, and `value` the size of their structure. */
struct row {
	unsigned short line, type;
	unsigned char set, kind, inner, unit, bytes, big, told, noted;
	unsigned long value;
};

struct name {
	unsigned short line, size;
	unsigned char group, kind, inner, noted;
	char name[17];
};

struct messages {
	unsigned short line, protocol, first, last;
	unsigned char header, set, stuck;
};

#define ANY 0xffff
#pragma GCC visibility push(hidden)
extern const struct row settings_rows[];
extern const struct name settings_names[];
extern const struct messages settings_messages[];
extern const unsigned int settings_rows_count, settings_names_count, settings_messages_count;

/* A file below /proc/sys/net: a line of sysctls.h. In the path, a star stands for anything but a slash. */
struct sysctl {
	unsigned short line;
	unsigned char unit;
	unsigned int most;
	char path[52];
};
extern const struct sysctl settings_sysctls[];
extern const unsigned int settings_sysctls_count;

/* A column of a file of /proc/net: a line of listings.h. */
struct listing {
	char name[24];
	unsigned char column, timer, unit;
};
extern const struct listing settings_listings[];
extern const unsigned int settings_listings_count;
#pragma GCC visibility pop

#endif
