/*
 * Times in the files of /proc/net that list things: LISTING(NAME, COLUMN, FORM, UNIT). Columns are counted from 0,
 * between spaces. FORM: DECIMAL, or TIMER, a kind and a hexadecimal number behind a colon. What is no number is left as
 * it is, so a line of titles does no harm. No include guard: whoever includes this says what LISTING is.
 */
LISTING("tcp", 5, TIMER, CS)
LISTING("tcp", 12, DECIMAL, CS)
LISTING("tcp", 13, DECIMAL, CS)
LISTING("tcp6", 5, TIMER, CS)
LISTING("tcp6", 12, DECIMAL, CS)
LISTING("tcp6", 13, DECIMAL, CS)
LISTING("igmp", 2, TIMER, CS)
LISTING("igmp6", 5, DECIMAL, CS)
LISTING("nf_conntrack", 4, DECIMAL, S)
LISTING("nf_conntrack_expect", 0, DECIMAL, S)
