/*
 * Where things lie in a dilated process, and what the two sides tell each other.
 *
 * Included by the guest image, by dilate-exec, and read by build.rs, which turns every
 * `#define DIORAMA_NAME NUMBER` into a Rust constant, so that there is one source of truth.
 */
#ifndef DIORAMA_LAYOUT_H
#define DIORAMA_LAYOUT_H

/*
 * The memfd, mapped whole, shared and read-only: the image (ELF file, text and read-only data), in the midst of it a
 * hole, the clock page, and behind that what of the image few programs use (guest/settings, and what unwinders read).
 * One mapping costs an exec and a fork less than two, and 64 KiB, aligned, is what one page fault maps at once.
 *
 * Where: below the lowest address that the kernel gives a position-independent program (0x555555554000), and above all
 * that it gives from the bottom up. Sanitizers divide the addresses among themselves and the program, each otherwise,
 * and this is the program's to all of them: ThreadSanitizer's from 0x550000000000 on, and from 0x510000000000 on
 * MemorySanitizer's and DataFlowSanitizer's.
 */
#define DIORAMA_IMAGE 0x550500000000
#define DIORAMA_IMAGE_ROOM 0xf000
#define DIORAMA_PAGE 0x55050000f000
#define DIORAMA_PAGE_SIZE 0x1000
#define DIORAMA_MEMFD_SIZE 0x20000
/* The last word of the clock page: a number that is no other memfd's. */
#define DIORAMA_COOKIE 0xfff8
/* Private state of the process: ten pages, of which most programs touch one, writable, copied by fork. */
#define DIORAMA_STATE 0x550500020000
#define DIORAMA_STATE_SIZE 0xa000
/*
 * The last eight of them: which CPUs threads may use, in sets of so many words (cpus.c). The first is what a thread
 * hands on to the program that it executes.
 */
#define DIORAMA_AFFINITY 0x550500022000
#define DIORAMA_AFFINITY_SIZE 0x8000
#define DIORAMA_AFFINITY_WORDS 4
/* The node's clock, mapped read-only; not there in a program that has none (crates/scale/include/node_clock.h). */
#define DIORAMA_NODE_CLOCK 0x55050002a000
/*
 * The end of the state's first page: where arguments and results lie when the injector makes a process call the kernel.
 */
#define DIORAMA_SCRATCH 0x550500020f80
#define DIORAMA_SCRATCH_SIZE 0x80
/*
 * Call sites that are answered without a signal (sites.c): the table, in the state's first page; the page of the image
 * with stubs for each, and where they lead.
 */
#define DIORAMA_SITE_TABLE 0x550500020800
#define DIORAMA_SITES 62
#define DIORAMA_SITE_SIZE 16
#define DIORAMA_ANSWER 0xcf00
#define DIORAMA_STUBS 0xd000
#define DIORAMA_STUB_SIZE 16
#define DIORAMA_STUB_COPIES 4
/*
 * How many changes of the rate the page remembers; of more, two are joined, and times of files between them
 * interpolated.
 */
#define DIORAMA_CHANGES 128
/* A system call whose instruction pointer has this upper half comes from us and is let through. */
#define DIORAMA_ADDRESS_HIGH 0x5505

/*
 * What the injector writes into a new program. The bootstrap: the last bytes of the process's own copy of the kernel's
 * vDSO, where there is nothing but padding and section headers. `struct parameters`: on the stack, so far below its
 * pointer that the first calls do not reach it.
 */
#define DIORAMA_BOOTSTRAP_ROOM 0x80
#define DIORAMA_PARAMETERS_BELOW 0x800

/*
 * Not a system call of Linux: "give me the memfd", answered by the injector with a descriptor, or with an error beyond
 * those that Linux has. The fifth argument is what came of the last try: a descriptor that was of no use, or an error,
 * which if it is the injector's own means that there is no hope. Either is answered by an end with a sentence.
 * The fourth is where `struct parameters` is: in a node, the injector first gives the descriptor of the node's
 * clock, and writes its number there.
 */
#define DIORAMA_CALL_MEMFD 0x3f57
#define DIORAMA_NOT_GIVEN 3072
/*
 * Nor this: "a setting of the kernel is not what its program takes it for", answered by the injector with 0. The
 * arguments say which and why (guest/settings).
 */
#define DIORAMA_CALL_NOTE 0x3f58
/*
 * Nor this: what a program wants of a listener for user notification that it makes itself (settings/listener.c). Of
 * calls of which its filter says RET_USER_NOTIF the filter that is installed says RET_TRAP, with these data: from
 * DIORAMA_LISTENER_DATA on, the listener's number, and one bit more where a filter that looks at the instruction
 * pointer cannot be asked for errors first. DIORAMA_LISTENED is where a process keeps the data, or 0. An error says
 * that a descriptor is no such listener.
 */
#define DIORAMA_CALL_LISTENER 0x3f59
#define DIORAMA_LISTENER_DATA 0xd100
#define DIORAMA_LISTENERS 128
#define DIORAMA_LISTENER_UNJUDGED 128
#define DIORAMA_LISTENED 0x550500020f78
#define DIORAMA_NO_LISTENER 3905
/*
 * By the same call a thread asks whether a tracer of its own is dilated, and can be told of a call that has trapped. If
 * one is not, the injector says so to the user.
 */
#define DIORAMA_TRACED 3
#define DIORAMA_TRACED_WITHIN 1
/*
 * And by it a tracer tells that what it traces has made a call that the image would have to answer, and has not got the
 * image any more (settings/tracer.c).
 */
#define DIORAMA_EMPTIED 4
/*
 * What an execve that may go to the injector has as its sixth argument, which execve and execveat do not have: the
 * image's and dilate-exec's; and the image's in a process with a filter of its own, which lets the bootstrap ask for
 * the memfd only.
 */
#define DIORAMA_EXECUTE 0x4d0c3f57
#define DIORAMA_EXECUTE_SANDBOXED 0x4d0c3f58
/*
 * What the bootstrap's openat2 gives for the size of its struct open_how (24, and zeros), by which the filter knows it.
 */
#define DIORAMA_OPEN_HOW 120
/* SECCOMP_RET_DATA, seen as si_errno: tells our traps from those of a filter of the program's own. */
#define DIORAMA_TRAP_DATA 0x4d0c
/* Mark of the filter that stands for SECCOMP_MODE_STRICT (strict.c). */
#define DIORAMA_STRICT_DATA 0x4d0d
/*
 * Filters of the program's own (settings/sandbox.c). Who asks by rt_sigprocmask with DIORAMA_ASK as its first argument
 * and no mask gets 0, or an error: DIORAMA_SANDBOXED if there are such filters, DIORAMA_JUDGED if their verdict on a
 * trapped call has to be asked for, and from DIORAMA_LISTENED_TO on, plus the listener's number, that and that one of
 * them has a listener. A verdict is asked for by the call itself, made from the address DIORAMA_JUDGE in the image
 * (two bytes before it is the syscall instruction): it is never carried out, but gives the filter's error, ENOSYS if a
 * tracer or another process were to say, or DIORAMA_NOT_JUDGED. From DIORAMA_JUDGE_AGAIN, only errors count. From
 * DIORAMA_CARRY_OUT a call is made that no filter of the program's judges, and that is not carried out if it traps.
 */
#define DIORAMA_ASK 0x4d0c3f59
#define DIORAMA_SANDBOXED 3901
#define DIORAMA_JUDGED 3902
#define DIORAMA_JUDGE 0xcee2
#define DIORAMA_JUDGE_AGAIN 0xcee5
#define DIORAMA_CARRY_OUT 0xcee8
/* From here a call is told to a tracer, as the program's filter wants it (settings/tracer.c). */
#define DIORAMA_TELL 0xceeb
#define DIORAMA_LISTENED_TO 3584
#define DIORAMA_NOT_JUDGED 3903
/* The descriptor over which dilate-exec hands its seccomp listener to the injector, unless it is told another. */
#define DIORAMA_SOCKET 3

#endif
