# program: bubblewrap with a filter
# packages: bubblewrap python3 python3-seccomp
# A closed list, by which the one that it runs may do little more than wait.
cat >filter.py <<'END'
import os, seccomp, subprocess, sys, time
few = '''execve brk mmap mprotect munmap arch_prctl set_tid_address set_robust_list rseq prlimit64 getrandom openat read
         close newfstatat fstat pread64 access write exit_group clock_nanosleep futex lseek fadvise64'''
only = seccomp.SyscallFilter(seccomp.ERRNO(42) if sys.argv[1] == 'errno' else seccomp.KILL_PROCESS)
for call in few.split():
    only.add_rule(seccomp.ALLOW, call)
code = open('filter', 'wb+')
only.export_bpf(code)


def run(*command):
    code.seek(0)
    mine = ['bwrap', '--ro-bind', '/', '/', '--dev', '/dev', '--seccomp', str(code.fileno()), *command]
    return subprocess.run(mine, pass_fds=[code.fileno()], stderr=subprocess.PIPE, text=True)


# What has to be read from the disk takes its time once.
run('sleep', '0')
began = time.monotonic()
ran = run('sleep', '0.4')
took = int((time.monotonic() - began) * 1000)
if ran.returncode:
    sys.exit(f'sleep: {ran}')
ran = run('mkdir', 'forbidden')
refused = ran.returncode == 1 if sys.argv[1] == 'errno' else ran.returncode == 128 + 31
if not refused or os.path.exists('forbidden'):
    sys.exit(f'mkdir: {ran}')
print(400, took, f'sleep, others: {sys.argv[1]}')
END
/usr/bin/python3 filter.py errno
/usr/bin/python3 filter.py kill
