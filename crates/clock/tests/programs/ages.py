# The age of a process, by its clock and by /proc; of this one and of its child. Prints ages in virtual s, by either.
import os, subprocess, time
def uptime():
    return float(open('/proc/uptime').read().split()[0])
def age(pid):
    fields = open(f'/proc/{pid}/stat').read().rsplit(')', 1)[1].split()
    return uptime() - int(fields[19]) / 100
def cpu():
    fields = open('/proc/self/stat').read().rsplit(')', 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100
start = time.monotonic()
child = subprocess.Popen(['sleep', '100'])
time.sleep(0.3)
while time.process_time() < 0.05:
    pass
print(time.monotonic() - start, age(child.pid))
print(time.clock_gettime(time.CLOCK_BOOTTIME), uptime())
print(time.process_time(), cpu())
names = [f'/proc/{p}/stat' for p in ('self', 'thread-self', os.getpid(), f'self/task/{os.getpid()}')]
print(len({open(n).read().split(' ')[21] for n in names}), open(names[0]).read().split(' ')[1])
child.kill()
