# program: systemd's SystemCallFilter=@system-service
# packages: systemd python3 python3-seccomp
# The list as systemd has it, installed as a service's is, before an exec: by libseccomp, since nothing here has systemd
# as its PID 1. What it allows works; `mount`, which it does not, fails as asked for, or ends the program.
cat >service.py <<'END'
import os, seccomp, subprocess, sys, time


def calls(of):
    told = subprocess.run(['systemd-analyze', 'syscall-filter', of], capture_output=True, text=True, check=True).stdout
    for word in told.split('\n')[1:]:
        word = word.strip()
        if word.startswith('@'):
            yield from calls(word)
        elif word and not word.startswith('#'):
            yield word


def service(otherwise, *command):
    only = seccomp.SyscallFilter(otherwise)
    for call in {*calls('@system-service'), *calls('@default')}:
        try:
            only.add_rule(seccomp.ALLOW, call)
        except RuntimeError:
            pass  # not of this architecture
    return subprocess.run(command, preexec_fn=only.load, capture_output=True, text=True)


otherwise = {'errno': seccomp.ERRNO(1), 'kill': seccomp.KILL_PROCESS}[sys.argv[1]]
wait = 'import time; s = time.monotonic(); time.sleep(0.4); print(int((time.monotonic() - s) * 1000))'
ran = service(otherwise, sys.executable, '-c', wait)
if ran.returncode:
    sys.exit(f'a wait: {ran}')
mount = '''import ctypes
libc = ctypes.CDLL(None, use_errno=True)
print(libc.mount(b"none", b"/", b"tmpfs", 0, None), ctypes.get_errno())'''
refused = service(otherwise, sys.executable, '-c', mount)
if (refused.returncode, refused.stdout) != ((0, '-1 1\n') if sys.argv[1] == 'errno' else (-31, '')):
    sys.exit(f'mount: {refused}')
print(400, ran.stdout.strip(), f'sleep, others: {sys.argv[1]}', flush=True)
END
/usr/bin/python3 service.py errno
/usr/bin/python3 service.py kill
