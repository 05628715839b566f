/*
 * The system calls that trap, each in one place: its number, who answers it in the image (trap.c), and when it traps
 * (exec/filter.c).
 *
 *   CALL(NUMBER, HANDLER, RULE [, WHICH…])
 *
 * NUMBER is __NR_ and a name. HANDLER takes a `struct call` and returns what the kernel would. RULE is a function of
 * exec/filter.c, which gets NUMBER and WHICH: arguments of the call, counted from 0. No include guard: whoever includes
 * this file says what CALL is. The order is the filter's, which asks one number after the other: the busy calls first.
 *
 * BUSY is a CALL that may be answered without a signal (sites.c). Its rule is a function of sites.c, too, and its
 * handler does not need the frame.
 */
#ifndef BUSY
#define BUSY CALL
#endif
BUSY(__NR_futex, call_futex, futex)
BUSY(__NR_epoll_wait, call_epoll_wait, milliseconds, 3, 0)
BUSY(__NR_epoll_pwait, call_epoll_pwait, milliseconds, 3, 4)
BUSY(__NR_poll, call_poll, milliseconds, 2, 0)
BUSY(__NR_rt_sigprocmask, call_rt_sigprocmask, changes_mask)
CALL(__NR_rt_sigaction, call_rt_sigaction, changes_action)
CALL(__NR_rt_sigsuspend, call_rt_sigsuspend, always)
BUSY(__NR_ppoll, call_ppoll, if_given, 2, 3)
BUSY(__NR_select, call_select, if_given, 4, 4)
BUSY(__NR_pselect6, call_pselect6, if_given, 4, 5)
BUSY(__NR_epoll_pwait2, call_epoll_pwait2, if_given, 3, 4)
CALL(__NR_futex_waitv, call_futex_waitv, if_given, 3, 3)
CALL(__NR_futex_wait, call_futex_wait, if_given, 4, 4)
CALL(__NR_rt_sigtimedwait, call_rt_sigtimedwait, if_given, 2, 2)
CALL(__NR_mq_timedsend, call_mq_timed, if_given, 4, 4)
CALL(__NR_mq_timedreceive, call_mq_timed, if_given, 4, 4)
CALL(__NR_semtimedop, call_semtimedop, if_given, 3, 3)
CALL(__NR_recvmmsg, call_recvmmsg, if_given, 4, 4)
CALL(__NR_io_getevents, call_io_getevents, if_given, 4, 4)
CALL(__NR_io_pgetevents, call_io_pgetevents, if_given, 4, 5)
BUSY(__NR_wait4, call_wait4, if_given, 3, 3)
CALL(__NR_waitid, call_waitid, if_given, 4, 4)
BUSY(__NR_openat, call_open, reading, 2)
BUSY(__NR_open, call_open, reading, 1)
CALL(__NR_openat2, call_open, not_bootstrap)
CALL(__NR_utimensat, call_utimensat, if_given, 2, 2)
CALL(__NR_futimesat, call_utimes, if_given, 2, 2)
CALL(__NR_utimes, call_utimes, if_given, 1, 1)
CALL(__NR_utime, call_utime, if_given, 1, 1)
BUSY(__NR_clock_gettime, call_clock_gettime, always)
BUSY(__NR_nanosleep, call_nanosleep, always)
BUSY(__NR_clock_nanosleep, call_clock_nanosleep, always)
BUSY(__NR_gettimeofday, call_gettimeofday, always)
BUSY(__NR_time, call_time, always)
CALL(__NR_timer_create, call_timer_create, always)
BUSY(__NR_timer_settime, call_timer_settime, always)
CALL(__NR_timer_gettime, call_timer_gettime, always)
BUSY(__NR_setitimer, call_setitimer, always)
CALL(__NR_getitimer, call_getitimer, always)
CALL(__NR_alarm, call_alarm, always)
CALL(__NR_timerfd_create, call_timerfd_create, not_monotonic)
BUSY(__NR_timerfd_settime, call_timerfd_settime, always)
CALL(__NR_timerfd_gettime, call_timerfd_gettime, always)
BUSY(__NR_times, call_times, always)
BUSY(__NR_getrusage, call_getrusage, always)
CALL(__NR_getrlimit, call_rlimit, of_cpu, 0)
CALL(__NR_setrlimit, call_rlimit, of_cpu, 0)
CALL(__NR_prlimit64, call_rlimit, of_cpu, 1)
CALL(__NR_sysinfo, call_sysinfo, always)
CALL(__NR_adjtimex, call_adjtimex, always)
CALL(__NR_clock_adjtime, call_clock_adjtime, always)
CALL(__NR_clock_settime, call_clock_settime, always)
CALL(__NR_settimeofday, call_settimeofday, always)
BUSY(__NR_newfstatat, call_newfstatat, always)
BUSY(__NR_fstat, call_stat, always)
BUSY(__NR_stat, call_stat, always)
BUSY(__NR_lstat, call_stat, always)
BUSY(__NR_statx, call_statx, always)
CALL(__NR_setsockopt, call_setsockopt, socket_options)
CALL(__NR_getsockopt, call_getsockopt, socket_options)
CALL(__NR_shmctl, call_ipc_stat, ipc_stat, 1)
CALL(__NR_msgctl, call_ipc_stat, ipc_stat, 1)
CALL(__NR_semctl, call_ipc_stat, ipc_stat, 2)
CALL(__NR_ioctl, call_ioctl, packet_stamps)
/* Not by this filter but by packets.c's. */
CALL(__NR_recvmsg, call_recvmsg, never)
CALL(__NR_clone3, call_clone3, always)
CALL(__NR_prctl, call_seccomp, filtering)
CALL(__NR_seccomp, call_seccomp, filtering)
CALL(__NR_execve, call_execute, executing)
CALL(__NR_execveat, call_execute, executing)
#undef BUSY
