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
def relative(name, directory):
    fd = os.open(directory, os.O_RDONLY)
    return os.fdopen(os.open(name, os.O_RDONLY, dir_fd=fd)).read()
os.chdir('/proc')
also = [relative('stat', f'/proc/{os.getpid()}'), relative('self/stat', '/proc'),
        relative('stat', f'/proc/self/task/{os.getpid()}'),
        open('self/stat').read(), open('/proc/./self//stat').read()]
names = [f'/proc/{p}/stat' for p in ('self', 'thread-self', os.getpid(), f'self/task/{os.getpid()}')]
print(len({t.split(' ')[21] for t in also + [open(n).read() for n in names]}), open(names[0]).read().split(' ')[1])
print(abs(float(relative('uptime', '/proc').split()[0]) - uptime()) < 0.1, open('/proc/stat').read(3))
child.kill()
