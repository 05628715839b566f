# What procps says of a child that is 2.5 virtual s old and was busy for the last half second of them. Prints what is
# not so.
import os, subprocess, sys, time
# Each reading lies between two of the clock, however long a busy machine takes for it.
begun = time.monotonic()
child = subprocess.Popen(['python3', '-c', '''
import os, time
os.nice(-20)
time.sleep(2)
end = time.monotonic() + 100
while time.monotonic() < end:
    pass
'''])
start = time.monotonic()
def run(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
time.sleep(2.5)
least = time.monotonic() - start
seconds = int(run('ps', '-o', 'etimes=', '-p', str(child.pid)))
most = time.monotonic() - begun
if not least - 1.5 <= seconds <= most + 0.5:
    print(f'ps: {seconds} s old, by the clock {least:.2f} to {most:.2f}')
started = time.mktime(time.strptime(run('env', 'LC_ALL=C', 'ps', '-o', 'lstart=', '-p', str(child.pid)).strip()))
date = time.time() - time.monotonic()
if not date + begun - 2.5 <= started <= date + start + 2.5:
    print(f'ps: started {time.time() - started:.0f} s ago')
def used():
    return time.clock_gettime(~child.pid << 3 | 2)    # clock_getcpuclockid
before = used(), time.monotonic()
top = run('top', '-b', '-n', '2', '-d', '0.5', '-p', str(child.pid)).splitlines()
cpu = [float(line.split()[8]) for line in top if line.strip().startswith(str(child.pid) + ' ')]
# A loaded machine gives it less than a core, never more.
share = 100 * (used() - before[0]) / (time.monotonic() - before[1])
if not min(30, share / 2) < cpu[-1] < 115:
    print(f'top: a busy process has {cpu} % of a CPU, by its own clock {share:.0f} %')
date = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
booted = time.mktime(time.strptime(run('uptime', '-s').strip(), '%Y-%m-%d %H:%M:%S'))
up = time.time() - booted
if abs(booted - date) > 2:
    print(f'uptime: up since {up:.0f} s, by the clock {time.clock_gettime(time.CLOCK_BOOTTIME):.0f}')
child.kill()
