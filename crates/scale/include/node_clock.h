/*
 * A node's clock: a page that the kernel's programs write (crates/cpu/bpf), that programs in the node read through the
 * image (crates/clock/guest), and that the harness reads and raises (crates/host/src/node_clock.rs).
 *
 * It shows real instants: the one at which the run's clock shows what the node's clock shows. So the image turns it
 * into virtual time as it would turn the real clock, and the two agree where the node is neither ahead nor behind.
 *
 *	clock(real) = max(base + (real - base_real) * rate, floor)
 *
 * While the node has the core, `rate` is what its work is worth: 1 / share, times the core's speed. While it waits
 * for the core, 0. While nobody in it wants the core, 1 (base is base_real), and `floor` is what the clock showed
 * last.
 */
#ifndef DIORAMA_NODE_CLOCK_H
#define DIORAMA_NODE_CLOCK_H

/* `rate` counts in 2^-20 ns of the node's clock for each real ns. */
#define NODE_CLOCK_RATE_BITS 20
#define NODE_CLOCK_UNIT (1ull << NODE_CLOCK_RATE_BITS)

enum node_clock_state {
	NODE_IDLE,  /* none of its threads can run */
	NODE_WAITS, /* one can, but another node or nobody's program has the core */
	NODE_RUNS,
};

struct node_clock {
	unsigned int sequence; /* odd while base and rate are being written */
	unsigned int state;
	unsigned long long base_real; /* ns of the host's CLOCK_MONOTONIC */
	unsigned long long base;
	unsigned long long rate;
	unsigned long long floor; /* only grows */
	/*
	 * How the node's date is off against the others', where an experiment says so: by `date_offset` ns from the instant
	 * `date_since` of its MONOTONIC on, and by date_drift / 2^32 ns more with each ns since; and before by `date_earlier`.
	 */
	long long date_offset;
	long long date_drift;
	unsigned long long raised;    /* before this none of its threads works from now on; only grows */
	unsigned long long delivered; /* when the frame that it is handed now, or was last, arrives: by the run's clock */
	unsigned long long date;      /* by how much the host's CLOCK_REALTIME is ahead of its CLOCK_MONOTONIC, ns */
	unsigned long long date_since;
	long long date_earlier;
	unsigned int date_sequence; /* odd while these four are being written; 0: the date is the run's */
	unsigned int queues; /* not 0: one of its interfaces has a queue that may hold frames back (tc) */
	unsigned long long answered; /* when the answer came that its disk gave last, by the run's clock */
	unsigned int crowded; /* more of its threads can run than it has CPUs */
};

/* Of `date_drift`. */
#define NODE_CLOCK_DRIFT_BITS 32

#endif
