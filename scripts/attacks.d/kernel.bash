# Attacks by nodes on the kernel, past what is forbidden by name, and on what the harness lends them.

# python: one node that executes what comes from standard input.
python() {
  mkdir -p lab
  cat >lab/try.py
  experiment 'python3 /try.py' 'files: { /try.py: try.py }'
  sed -i 's/speed: 0.3/speed: 0.7/; s/limit: 60s/limit: 200s/' lab/experiment.yaml
}
# What the node has said: that it was there to the end, and nothing that begins with DONE.
tried() { "$diorama" logs out a >log; cat log; grep -qx ALL log && ! grep -q ^DONE log; }
# The same experiment, with dilation.
scaled() {
  sed -i 's/tdf: 1/tdf: 2/; s/speed: 0.7/speed: 0.3/' lab/experiment.yaml
  timeout -k 5 560 "$diorama" run lab --wait --out out
}

# By the numbers of 32-bit programs and of x32, of which no filter speaks: a namespace of users, and keys.
calls_of_other_architectures() {
  python <<'END'
import ctypes, mmap, os
def code(text):
    m = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    m.write(text)
    return ctypes.CFUNCTYPE(ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(m))), m
def call32(number, first):
    return (b'\x53\xb8' + number.to_bytes(4, 'little') + b'\xbb' + first.to_bytes(4, 'little') +
            b'\x31\xc9\x31\xd2\xcd\x80\x48\x98\x5b\xc3')
def call(number, first):
    return (b'\xb8' + number.to_bytes(4, 'little') + b'\xbf' + first.to_bytes(4, 'little') +
            b'\x31\xf6\x31\xd2\x45\x31\xd2\x0f\x05\xc3')
X32, USER = 0x40000000, 0x10000000
tries = {'unshare by int80': call32(310, USER), 'keyctl by int80': call32(288, 0), 'stime by int80': call32(25, 0),
         'unshare by x32': call(X32 + 272, USER), 'keyctl by x32': call(X32 + 250, 0), 'unshare': call(272, USER)}
for name, text in tries.items():
    child = os.fork()
    if child == 0:
        run, kept = code(text)
        os._exit(7 if run() >= 0 else 0)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7:
        print('DONE', name, flush=True)
print('ALL')
END
  run; tried
}
# Sockets that no network namespace confines: the kernel's ciphers, which whoever may set up interfaces may remove.
settings_of_the_kernels_ciphers() {
  python <<'END'
import socket
for family, kinds, protocols in ((16, [3, 2], [8, 18, 20, 21, 22]), (40, [1], [0]), (42, [2], [0])):
    for kind in kinds:
        for protocol in protocols:
            try:
                socket.socket(family, kind, protocol)
                print('DONE', family, kind, protocol)
            except OSError:
                pass
print('ALL')
END
  run; tried
}
# Of all files of the kernel's: those that can be opened to write, but of processes and of the node's own network.
files_of_the_kernel_to_write() {
  python <<'END'
import os, stat
for top in ('/proc', '/sys'):
    for place, dirs, files in os.walk(top):
        if top == place:
            dirs[:] = [d for d in dirs if not d.isdigit() and d not in ('self', 'thread-self', 'net')]
        if place == '/proc/sys':
            dirs.remove('net')
        for name in files:
            at = os.path.join(place, name)
            try:
                mode = os.lstat(at).st_mode
                if stat.S_ISREG(mode) and mode & 0o222:
                    os.close(os.open(at, os.O_WRONLY | os.O_NONBLOCK))
                    print('DONE', at)
            except OSError:
                pass
print('ALL')
END
  run; tried
}
# The page by which all clocks of a run are told, and each other memory that is shared.
clocks_of_others() {
  python <<'END'
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
for line in open('/proc/self/maps').read().splitlines():
    where, mode, *_ = line.split()
    if mode[3] != 's' or mode[1] == 'w':
        continue
    start, end = (int(x, 16) for x in where.split('-'))
    if libc.mprotect(ctypes.c_void_p(start), ctypes.c_size_t(end - start), 3) == 0:
        print('DONE mprotect', line)
    try:
        with open('/proc/self/mem', 'r+b', 0) as memory:
            memory.seek(start)
            memory.write(b'\0' * 64)
        print('DONE mem', line)
    except OSError:
        pass
print('ALL')
END
  scaled; tried
}
# Programs that begin as one and go on as anything: who changes them at their start has to read them.
programs_that_are_none() {
  python <<'END'
import os, random, signal
random.seed(2)
good = open('/bin/true', 'rb').read()
for n in range(60):
    text = bytearray(good)
    for _ in range(random.choice([1, 3, 30])):
        ends = random.choice([64, 64 + 56 * 13, len(text)])
        text[random.randrange(ends)] = random.randrange(256)
    with open('/tmp/x', 'wb') as made:
        made.write(text[:random.choice([len(text), 64, 120, 4096, len(text) - 1])])
    os.chmod('/tmp/x', 0o755)
    child = os.fork()
    if child == 0:
        signal.alarm(2)
        try:
            os.execv('/tmp/x', ['x'] * random.choice([1, 2, 2000]))
        except OSError:
            os._exit(1)
    os.waitpid(child, 0)
    os.unlink('/tmp/x')
print('ALL')
END
  scaled; tried
}

# until_there: waits until the run that says so in the file `running` has begun.
until_there() {
  local n
  for n in $(seq 1800); do
    ! grep -q 'virtual 0' running || return 0
    [ -n "$(jobs -rp)" ] || { cat running; return 1; }
    sleep 0.1
  done
}
# lent FUNCTION: while there is a run with a node that sleeps.
lent() {
  experiment 'sleep 100000'
  sed -i 's/limit: 60s/limit: 400s/; s/exited: .a., //; s/speed: 0.3/speed: 0.6/' lab/experiment.yaml
  timeout -k 5 560 "$diorama" run lab --wait --variant baseline --out out >running 2>&1 &
  local code=0
  until_there
  "$1" || code=1
  timeout 60 "$diorama" event out 'do: end'
  wait $!
  return $code
}
# A command's input is a socket, as under sshd: whoever may set up interfaces may set up those of where it is from.
a_socket_of_the_host() { lent with_socket; }
with_socket() {
  cat >ask.py <<'END'
import fcntl, socket, struct
for fd in (0, 1, 2):
    try:
        fcntl.ioctl(socket.socket(fileno=fd), 0x8912, struct.pack('iL', 0, 0))
        print('INTERFACES')
    except OSError:
        pass
print('ALL')
END
  python3 - "$diorama" "$(cat ask.py)" <<'END'
import socket, subprocess, sys
ours, theirs = socket.socketpair()
subprocess.run([sys.argv[1], 'exec', 'out', 'a', '--', 'python3', '-c', sys.argv[2]],
               stdin=theirs, stdout=theirs, stderr=theirs, timeout=100)
theirs.close()
said = b''.join(iter(lambda: ours.recv(1000), b''))
print(said)
sys.exit(b'INTERFACES' in said or b'ALL' not in said)
END
}
# What a command leaves behind reads what the next one should.
input_of_the_next_command() { lent with_input; }
with_input() {
  {
    timeout 60 "$diorama" exec out a -- sh -c 'exec 3<&0; setsid cat <&3 >/out/got & sleep 0.3'
    touch next
    read -r line
  } < <(while [ ! -e next ]; do sleep 0.1; done; sleep 3; echo secret)
  timeout 60 "$diorama" exec out a -- cat /out/got >got </dev/null
  echo "next: $line; got: $(cat got)"
  [ "$line" = secret ] && [ ! -s got ]
}
# A pipe with a name is a file of the host's.
a_pipe_with_a_name() { lent with_pipe; }
with_pipe() {
  mkfifo -m 600 fifo
  sleep 200 >fifo &
  timeout 60 "$diorama" exec out a -- chmod 666 /proc/self/fd/0 <fifo
  kill $!
  [ "$(stat -c %a fifo)" = 600 ]
}
# A node that kills all that it can, and each command in it.
a_node_that_kills_commands() {
  experiment 'while :; do kill -9 -1; done'
  sed -i 's/limit: 60s/limit: 30s/; s/exited: .a., //' lab/experiment.yaml
  run >running 2>&1 &
  until_there
  local n
  for n in 1 2 3; do timeout 60 "$diorama" exec out a -- sleep 100 </dev/null || [ $? != 124 ] || return 1; done
  wait $!
  [ -s out/result.json ]
}
# Memory that no control group counts: rings for packets.
memory_of_packets() {
  python <<'END'
import socket, struct, time
kept = []
try:
    while True:
        s = socket.socket(17, 3, 0)
        s.setsockopt(263, 5, struct.pack('IIII', 1 << 20, 256, 1 << 20, 256))
        kept.append(s)
except OSError as e:
    print(e)
time.sleep(30)
END
  run
  grep 'memory of this machine' out/result.json
}
# All names of files on the disk of the state. (Without `command`, the shell ends where there is no more.)
all_of_the_names() {
  on_a_small_disk size=64m,nr_inodes=4000 'i=0; while command : >/var/f$i; do i=$((i+1)); done; sleep 60' 'room for'
}
for one in calls_of_other_architectures settings_of_the_kernels_ciphers files_of_the_kernel_to_write clocks_of_others \
  programs_that_are_none a_socket_of_the_host input_of_the_next_command a_pipe_with_a_name \
  a_node_that_kills_commands; do
  attack "$one"
done
dangerous memory_of_packets
dangerous all_of_the_names
