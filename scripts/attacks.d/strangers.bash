# Attacks by a stranger to the code: what the kernel has one of for all its namespaces, what other users of the machine
# can reach in a run, what nodes leave for the moment at which they are made again, and names that are paths.

# Neighbours, of which the kernel keeps 1,024 for all networks together: as many as there can be, always new.
neighbours_of_the_whole_machine() {
  lan <<'END'
import os, socket, subprocess, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setblocking(False)
subprocess.run('ip addr add 10.99.0.1/16 dev eth0; sysctl -w net.ipv4.neigh.eth0.retrans_time_ms=100000', shell=True)
subprocess.run('sysctl -w net.ipv4.neigh.eth0.mcast_solicit=100 net.ipv4.neigh.default.gc_thresh3=1000000', shell=True)
print('BEGUN', flush=True)
end, n = time.time() + 40, 0
while time.time() < end:
    n += 1
    try:
        s.sendto(b'x', (f'10.99.{n // 250 % 250}.{n % 250 + 2}', 9))
    except OSError:
        time.sleep(0.001)
print('ALL', flush=True)
END
  run >running 2>&1 &
  local code=0 n
  until_said BEGUN && sleep 5
  ip netns add attack-n && ip link add attack-n type veth peer name attack-p netns attack-n || code=1
  ip addr add 10.98.0.1/16 dev attack-n; ip link set attack-n up; ip -n attack-n link set attack-p up
  ip -n attack-n addr add 10.98.0.2/16 dev attack-p
  for n in 2 2 2; do ping -c 1 -W 3 10.98.0.$n >said 2>&1 || { cat said; code=1; }; ip neigh flush dev attack-n; done
  ip link del attack-n; ip netns del attack-n
  wait $!; tried && return $code
}
# What waits in sockets, of which nobody reads: the kernel has so much for all TCP, and for all UDP.
memory_of_sockets() {
  python <<'END'
import resource, socket, time
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
listener = socket.socket()
listener.bind(('127.0.0.1', 0))
listener.listen(4000)
kept, total = [], 0
end = time.time() + 60
try:
    while time.time() < end:
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, 33, 1 << 26)
        s.setsockopt(socket.SOL_SOCKET, 32, 1 << 26)
        s.connect(listener.getsockname())
        a = listener.accept()[0]
        kept += [s, a]
        s.setblocking(False)
        try:
            while time.time() < end:
                total += s.send(b'x' * 65536)
        except BlockingIOError:
            pass
        if total > 1 << 28:
            print('DONE', total >> 20, 'MiB in sockets', flush=True)
            break
except OSError as e:
    print(e)
print('held', total >> 20, flush=True)
END
  run >said 2>&1; tail -n 3 said; "$diorama" logs out a; ! "$diorama" logs out a | grep ^DONE
}
# Packet filters' tables, each said to be of 1.6 GB: the kernel makes them smaller, or none.
tables_of_packet_filters() {
  local before; before=$(available)
  python <<'END'
import subprocess, time
for n in range(8):
    words = f'iptables -A OUTPUT -m hashlimit --hashlimit-name t{n} --hashlimit-above 1/s --hashlimit-htable-size'
    done = subprocess.run([*words.split(), '200000000', '-j', 'DROP'], capture_output=True, text=True)
    print(n, done.returncode, done.stderr[-80:], flush=True)
print('ALL', flush=True)
time.sleep(8)
END
  lacks_little_of "$before" && tried
}
# Families of sockets that are the machine's own: radios, telephones, cards.
families_of_sockets() {
  python <<'END'
import socket
for family in (8, 20, 26, 27, 30, 31, 32, 33, 34, 35, 36, 37, 39, 40, 41, 42, 43):
    for kind in (1, 2, 3, 5):
        for protocol in range(0, 8):
            try:
                socket.socket(family, kind, protocol)
                print('DONE', family, kind, protocol)
            except OSError:
                pass
print('ALL')
END
  run; tried
}
# Large pages that the host has put aside for somebody.
large_pages_of_the_host() {
  local before
  before=$(cat /proc/sys/vm/nr_hugepages)
  echo 8 >/proc/sys/vm/nr_hugepages
  python <<'END'
import ctypes, mmap
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
if libc.mmap(None, 2 << 20, 3, 0x40022, -1, 0) not in (None, 2 ** 64 - 1):
    print('DONE mmap')
fd = libc.memfd_create(b'x', 4)
if fd >= 0 and libc.mmap(None, 2 << 20, 3, 1, fd, 0) not in (None, 2 ** 64 - 1):
    print('DONE memfd')
if libc.shmget(1, 2 << 20, 0o1000 | 0o4000 | 0o600) >= 0:
    print('DONE shmget')
print('ALL')
END
  run; local code=0
  tried || code=1
  echo "$before" >/proc/sys/vm/nr_hugepages
  return $code
}
# Each call that the kernel has, and some that it has not, with anything as arguments.
every_call_of_the_kernel() {
  python <<'END'
import ctypes, os, random, signal, time
libc = ctypes.CDLL(None, use_errno=True)
own = {56, 57, 58, 60, 61, 62, 129, 130, 200, 231, 234, 297, 424, 435}
random.seed(7)
place = ctypes.create_string_buffer(65536)
end = time.time() + 60
for number in list(range(0, 472)) * 3:
    if number in own or time.time() > end:
        continue
    child = os.fork()
    if child == 0:
        signal.alarm(1)
        values = [random.choice([0, 1, 2, 3, -1, 4096, 1 << 31, ctypes.addressof(place)]) for _ in range(6)]
        libc.syscall(number, *map(ctypes.c_long, values))
        os._exit(0)
    os.waitpid(child, 0)
print('ALL', flush=True)
END
  local before after
  before=$(state_of_the_host); run; after=$(state_of_the_host)
  diff <(echo "$before") <(echo "$after") && tried
}
# Sockets, pipes and devices that lie in the host's own files, which nodes see.
doors_in_the_hosts_files() {
  local at=/opt/attack-doors code=0
  mkdir -p $at && chmod 755 $at && mkfifo -m 666 $at/pipe && mknod -m 666 $at/zero c 1 5 &&
    mknod -m 666 $at/disk b 254 0
  python3 -c "import socket, os, time
s = socket.socket(1); s.bind('$at/socket'); os.chmod('$at/socket', 0o666); s.listen(); s.settimeout(500)
open('connected', 'w').write(str(s.accept()))" &
  local server=$!
  cat $at/pipe >piped &
  local reader=$!
  python <<END
import os, socket
at = '$at'
try:
    socket.socket(1).connect(at + '/socket')
    print('DONE socket')
except OSError as e:
    print(e)
for name in ('pipe', 'zero', 'disk'):
    try:
        fd = os.open(f'{at}/{name}', os.O_RDWR | os.O_NONBLOCK)
        os.write(fd, b'from a node')
        print('SEEN', name)
        if name != 'pipe':
            print('DONE', name)
    except OSError as e:
        print(name, e)
print('ALL')
END
  run; tried || code=1
  kill $server $reader; rm -rf $at
  [ ! -s piped ] && [ ! -s connected ] || code=1
  return $code
}
# A program of a node's root with the setuid bit, and another user of the machine who finds it by the node's processes.
a_setuid_program_by_a_nodes_process() {
  python <<'END'
import os, shutil, time
shutil.copy('/usr/bin/id', '/out/id')
os.chown('/out/id', 0, 0)
os.chmod('/out/id', 0o6755)
os.chmod('/out', 0o755)
if os.fork() == 0:
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
    os.execv('/bin/sleep', ['sleep', '100003'])
print('ALL', flush=True)
time.sleep(15)
END
  run >running 2>&1 &
  local pid code=0 n
  for n in $(seq 600); do pid=$(pgrep -f 'sleep 100003' | head -n 1); [ -z "$pid" ] || break; sleep 0.2; done
  as_nobody sh -c "/proc/$pid/root/out/id -u; cat /proc/$pid/root/etc/shadow; ls -ld /proc/$pid/cwd/var/lib/diorama/*" \
    >said 2>&1
  cat said; ! grep -q '^0$\|root:[$!*]' said || code=1
  wait $!; tried && return $code
}
# A node raises what it is limited to.
limits_that_are_ones_own() {
  python <<'END'
import glob, os, resource
for name in ('memory.max', 'memory.high', 'memory.limit_in_bytes', 'pids.max', 'cpu.max', 'cpu.weight', 'cpu.shares',
             'cpuset.cpus', 'cgroup.freeze', 'cgroup.kill', 'devices.allow', 'cgroup.subtree_control', 'release_agent',
             'notify_on_release', 'memory.oom_control', 'cpu.cfs_quota_us'):
    for path in glob.glob('/sys/fs/cgroup/**/' + name, recursive=True):
        try:
            with open(path) as file:
                before = file.read()
            with open(path, 'w') as file:
                file.write(before or 'a')
            print('DONE', path)
        except OSError:
            pass
for kind in range(16):
    soft, hard = resource.getrlimit(kind)
    if hard != resource.RLIM_INFINITY:
        try:
            resource.setrlimit(kind, (soft, hard + 1))
            print('DONE limit', kind)
        except (OSError, ValueError):
            pass
for pid in filter(str.isdigit, os.listdir('/proc')):
    try:
        with open(f'/proc/{pid}/oom_score_adj', 'w') as file:
            file.write('-1000')
        print('DONE oom', pid)
    except OSError:
        pass
for path in glob.glob('/sys/fs/cgroup/') + glob.glob('/sys/fs/cgroup/*/'):
    try:
        os.mkdir(path + 'attack')
        # In version 1 the first is a file system in memory, and no group.
        if os.listdir(path + 'attack'):
            print('DONE a group', path)
    except OSError:
        pass
print('ALL')
END
  run; tried
}
# What a node leaves for the moment at which it is made again: links in the place of what is written then.
links_for_the_next_boot() {
  local victim=$PWD/victim code=0
  mkdir victim && echo keep >victim/hosts && echo keep >victim/log
  mkdir -p lab
  cat >lab/experiment.yaml <<END
name: attack
tdf: 1
machines: { m: { speed: 0.4, memory: 128MiB } }
nodes:
  a:
    machine: m
    run:
      - sh
      - -c
      - "rm -f /etc/hosts /etc/hostname /etc/resolv.conf /etc/mtab; rm -rf /out; ln -s $victim /out;
        for f in hosts hostname resolv.conf mtab; do ln -s $victim/\$f /etc/\$f; done;
        mv /etc /etc.old && ln -s $victim /etc; mv /tmp /t; \
        ln -s $victim /tmp; ln -s $victim /.diorama2; echo ALL; sleep 1000"
  b: { machine: m, run: [sleep, "1000"] }
links: [ { from: a, to: b, bandwidth: 1Gbit/s, delay: 1ms } ]
events: [ { at: 8s, node: a, do: kill }, { at: 10s, node: a, do: start }, { at: 16s, do: end } ]
metrics: { x: { nodes: a, rows: /out/log, value: 1, unit: us } }
ends: { limit: 60s }
END
  run >said 2>&1; tail -n 4 said
  [ "$(cat victim/hosts victim/log | tr -d '\n')" = keepkeep ] && [ "$(ls -A victim | wc -l)" = 2 ] ||
    { ls -lA victim; code=1; }
  grep -q ALL out/nodes/a/stdout.log && ! grep -q '"keep' out/result.json && return $code
}
# An image in which the files that are written and read at the start are links to the host's.
an_image_with_links_for_what_is_written() {
  local victim=$PWD/victim code=0
  mkdir victim && for n in hosts hostname resolv.conf mtab; do echo keep >victim/$n; done
  packed <<END
import os
for name in ('bin', 'lib', 'lib64'):
    file(t, name, type=b'2', linkname='usr/' + name)
for path in ('/usr/bin/dash', '/lib/x86_64-linux-gnu/libc.so.6', '/lib64/ld-linux-x86-64.so.2', '/usr/bin/cat'):
    with open(path, 'rb') as from_file:
        file(t, 'usr' + path.removeprefix('/usr'), from_file.read(), mode=0o755)
file(t, 'usr/bin/sh', type=b'2', linkname='dash')
for name in ('hosts', 'hostname', 'resolv.conf', 'mtab'):
    file(t, 'etc/' + name, type=b'2', linkname='$victim/' + name)
file(t, 'etc/passwd', type=b'2', linkname='/../../../../../../etc/shadow')
file(t, 'out', type=b'2', linkname='$victim')
file(t, '.diorama', type=b'2', linkname='$victim')
END
  experiment 'cat /etc/passwd; echo ALL' 'root: ../image.tar'
  run >said 2>&1; sound $? || code=1
  tail -n 3 said; ! grep -rq 'root:[$!*]' said out/nodes || code=1
  [ "$(cat victim/* | sort -u)" = keep ] && [ "$(ls -A victim | wc -l)" = 4 ] || { ls -lA victim; code=1; }
  return $code
}
# Names of images, runs and nodes that are paths.
names_that_are_paths() {
  local name code=0 at=/var/lib/diorama
  mkdir -p $at/attack-keep lab && echo keep >$at/attack-keep/file && mkdir -p victim && echo keep >victim/file
  for name in ../attack-keep ../../diorama/attack-keep "$PWD/victim" . .. '' '*' attack-keep ./../attack-keep; do
    timeout 30 "$diorama" image remove "$name"; sound $? || code=1
    timeout 30 "$diorama" swap remove "$name"; sound $? || code=1
    timeout 30 "$diorama" swap in "$name"; sound $? || code=1
    timeout 30 "$diorama" image save "$name" "$name" "$name"; sound $? || code=1
    timeout 30 "$diorama" logs "$name" "../../../../etc"; sound $? || code=1
  done >said 2>&1
  tail -n 5 said | cut -c 1-200
  [ "$(cat $at/attack-keep/file victim/file)" = $'keep\nkeep' ] || code=1
  rm -rf $at/attack-keep
  experiment true 'root: "image:../attack-keep"'
  refused . "$diorama" check lab || code=1
  return $code
}
# A visit in a live run, to a node whose name is a path, and an image of such a name.
visits_by_paths() {
  local name code=0
  for name in ../a a/../a /a '' .; do
    ! timeout 30 "$diorama" exec out "$name" -- true || code=1
    ! timeout 30 "$diorama" image save out a "../$name" || code=1
    ! timeout 30 "$diorama" event out "node: \"$name\", do: kill" || code=1
  done >said 2>&1
  tail -n 3 said; timeout 60 "$diorama" exec out a -- true && return $code
}
# By sudo: a search for a capacity whose folder the caller has filled with links.
a_search_behind_links() {
  mkdir -p theirs/out victim && experiment true && cp -r lab theirs/lab
  local name
  for name in table.md capacity.html capacity.csv capacity.json runs sweep.db queue.db queue.jobs sweep.jobs; do
    ln -s "$PWD/victim/$name" "theirs/out/$name"
  done
  chown -hR 65534 theirs
  as_caller capacity theirs/lab --vary nodes.a.count=1..2 --repeat 1 --out theirs/out
  timeout 60 "$diorama" capacity theirs/lab --vary nodes.a.count=1..2 --repeat 1 --out theirs/out >said 2>&1
  [ -z "$(ls -A victim)" ] || { ls -lA victim; return 1; }
}
# A queue that another user has filled, with jobs whose results go to root's directories.
a_queue_of_somebody_else() {
  local at=/etc/attack-results code=0
  mkdir theirs && chown 65534 theirs && experiment true && cp -r lab theirs/lab && chown -R 65534 theirs
  (cd theirs && SUDO_UID=65534 SUDO_GID=65534 "$diorama" batch add --queue q lab) || return 1
  python3 - <<END
import sqlite3
db = sqlite3.connect('theirs/q')
for table, in db.execute("select name from sqlite_master where type = 'table'").fetchall():
    columns = [c[1] for c in db.execute(f'pragma table_info({table})')]
    print(table, columns)
    for column in columns:
        if column in ('place', 'out', 'dir_of_results'):
            db.execute(f"update {table} set {column} = '$at'")
db.commit()
END
  chown -R 65534 theirs
  (cd theirs && timeout 100 "$diorama" batch run --queue q) >said 2>&1
  tail -n 3 said
  [ ! -e $at ] || { rm -rf $at; code=1; }
  return $code
}
# A template, behind a link of another's.
a_new_experiment_behind_a_link() {
  mkdir theirs victim && ln -s "$PWD/victim" theirs/lab && chown -hR 65534 theirs
  "$diorama" new web theirs/lab; "$diorama" new web --into theirs/lab; (cd theirs && "$diorama" new lab)
  [ -z "$(ls -A victim)" ] || { ls -lA victim; return 1; }
}
# Where directories for temporary files are, by the caller's environment.
directories_of_the_environment() {
  local name code=0
  mkdir theirs victim && ln -s "$PWD/victim" theirs/tmp && chown -hR 65534 theirs
  experiment 'echo ALL' && printf 'puts hello\n' >a.ns
  for name in TMPDIR HOME XDG_RUNTIME_DIR XDG_CONFIG_HOME XDG_CACHE_HOME RUST_BACKTRACE; do
    (export "$name=$PWD/theirs/tmp"; rm -rf out; run; timeout 20 "$diorama" check a.ns) >said 2>&1; sound $? || code=1
  done
  [ -z "$(ls -A victim)" ] && return $code
}
# Words that a terminal would obey, in all places where a command names what it was given.
words_that_a_terminal_would_obey() {
  local bad=$'x\033]0;owned\007' verb
  experiment true
  for verb in "explain $bad" "new $bad $bad" "check lab --set name=$bad" "capacity lab --vary $bad=1..2" \
    "capacity lab --vary nodes.a.count=1..2 --hold $bad=5%" "compare lab lab --within $bad" "bench $bad" \
    "run lab --require $bad<5ms" "run lab --accuracy $bad" "run lab --tdf $bad" "events $bad" "event $bad $bad" \
    "swap in $bad" "image save $bad a $bad" "map lab --machines $bad" "sweep lab --over $bad=1" "doctor --$bad" \
    "batch show --queue q $bad" "dilate --tdf $bad -- true" "logs lab $bad" "$bad"; do
    # shellcheck disable=SC2086
    timeout 20 "$diorama" $verb >>said 2>&1 </dev/null
  done
  cat -v said | grep -F '^[' | head -n 20; [ -s said ] && ! grep -q $'\033' said
}
# Numbers that no machine has.
numbers_beyond_all_measure() {
  local what code=0
  for what in tdf=1e308 tdf=99999999999999999999 tdf=nan tdf=-1 nodes.a.count=4294967295 nodes.a.count=-1 \
    machines.m.memory=99999999999TiB machines.m.cpus=1000000000 machines.m.speed=1e300 machines.m.speed=0 \
    ends.limit=1e300s ends.limit=-1s ends.limit=99999999999999999999s seed=99999999999999999999 \
    logs=99999999999999999999GiB log_rate=1e300Gbit/s measure=5s..1s nodes.a.ports.80=99999 accuracy=1e99%; do
    experiment true
    (ulimit -v 900000; timeout 20 "$diorama" check lab --set "$what") >said 2>&1
    local ended=$?
    sound $ended && [ $ended != 124 ] || { echo "$what: $ended"; code=1; }
  done
  (timeout 20 "$diorama" sweep lab --over machines.m.speed=$(seq -s, 0.001 0.001 0.9) \
    --over nodes.a.count=$(seq -s, 5000) --repeat 4294967295) >said 2>&1
  local ended=$?
  tail -n 2 said | cut -c 1-200; sound $ended && [ $ended != 124 ] || code=1
  return $code
}
# A record in which the places of files have pipes, directories, and lengths that no disk has.
a_record_of_pipes() {
  experiment 'echo v=1; echo 5 >/out/log'
  echo 'metrics: { x: { nodes: a, rows: /out/log, value: 1, unit: us } }' >>lab/experiment.yaml
  run >said 2>&1 || { tail -n 3 said; return 1; }
  local file what code=0 ended
  for file in result.json plan.json events.jsonl metrics/x.csv nodes/a/stdout.log experiment.yaml pipes.csv; do
    for what in pipe directory long; do
      rm -rf bad && cp -r out bad && rm -f bad/$file
      case $what in pipe) mkfifo bad/$file ;; directory) mkdir bad/$file ;; long) truncate -s 8T bad/$file ;; esac
      for verb in "compare out bad" "compare bad bad --html page.html" "logs bad" "events bad"; do
        ended=0
        # shellcheck disable=SC2086
        (ulimit -v 900000; timeout 40 "$diorama" $verb) 2>&1 | head -c 3000000 >said || ended=1
        ended=${PIPESTATUS[0]}
        sound "$ended" && [ "$ended" != 124 ] || { echo "$verb: $file as $what: $ended"; code=1; }
      done
    done
  done
  return $code
}
# More connections to a node's port than the harness has descriptors.
a_flood_of_connections() {
  python <<'END'
import socket, time
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(('', 80))
s.listen(64)
time.sleep(40)
print('ALL', flush=True)
END
  sed -i 's/machine: m,/machine: m, ports: { 28080: 80 },/' lab/experiment.yaml
  run >running 2>&1 &
  until_there; sleep 3
  as_nobody python3 - <<'END'
import resource, socket, time
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
kept, end = [], time.time() + 20
while time.time() < end and len(kept) < 30000:
    s = socket.socket()
    s.setblocking(False)
    try:
        s.connect(('127.0.0.1', 28080))
    except BlockingIOError:
        pass
    except OSError as e:
        print(e)
        time.sleep(0.1)
    kept.append(s)
for s in kept[:3000]:
    try:
        s.send(b'x' * 100000)
    except OSError:
        pass
print(len(kept), 'connections')
time.sleep(3)
END
  timeout 60 "$diorama" exec out a -- true </dev/null || { cat running; return 1; }
  wait $!; tried
}
# All that a node can do to keep the harness busy, when it is to end.
a_node_that_is_busy_when_it_is_to_end() {
  experiment 'while :; do yes | head -c 1000000; /bin/true; done & while :; do :; done & ip link set lo up; \
ping -f -q 127.0.0.1 & timeout 1000 yes >&2'
  sed -i 's/tdf: 1/tdf: 2/; s/limit: 60s/limit: 600s/' lab/experiment.yaml
  env --default-signal=INT "$diorama" run lab --wait --out out >running 2>&1 &
  local pid=$! since
  until_there; sleep 4
  since=${EPOCHREALTIME/./}
  kill -INT $pid; wait $pid
  local code=$?
  since=$((${EPOCHREALTIME/./} - since))
  echo "ended with $code after $since us"; [ $code = 130 ] && [ $since -lt $((most * 2)) ] && [ -s out/result.json ]
}
# Memory that is no process's: shared memory, queues, files in memory, pipes.
memory_that_is_nobodys() {
  local before; before=$(available)
  python <<'END'
import ctypes, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
if os.fork() == 0:
    for n in range(2000):
        id = libc.shmget(0, 1 << 20, 0o1600)
        at = libc.shmat
        at.restype = ctypes.c_void_p
        place = at(id, None, 0)
        if place in (None, 2 ** 64 - 1):
            break
        ctypes.memset(place, 1, 1 << 20)
        libc.shmdt(ctypes.c_void_p(place))
    os._exit(0)
os.wait()
if os.fork() == 0:
    with open('/dev/shm/x', 'wb') as file:
        try:
            for n in range(2000):
                file.write(b'x' * (1 << 20))
        except OSError:
            pass
    os._exit(0)
os.wait()
print('ALL', flush=True)
time.sleep(8)
END
  lacks_little_of "$before"
}
# Programs that nobody may read, have no name, are removed, or are scripts of scripts; under dilation.
programs_that_cannot_be_read() {
  python <<'END'
import os, shutil, subprocess, time
shutil.copy('/bin/true', '/out/true')
os.chmod('/out', 0o755)
os.chmod('/out/true', 0o111)
def as_nobody():
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
print(subprocess.run(['/out/true'], preexec_fn=as_nobody).returncode)
fd = os.memfd_create('x', 0)
os.write(fd, open('/bin/true', 'rb').read())
print(subprocess.run([f'/proc/self/fd/{fd}'], pass_fds=[fd]).returncode)
gone = os.open('/out/true', os.O_RDONLY)
os.unlink('/out/true')
print(subprocess.run([f'/proc/self/fd/{gone}'], pass_fds=[gone]).returncode)
for n in range(8):
    with open(f'/out/s{n}', 'w') as file:
        file.write(f'#!/out/s{n + 1}\n')
    os.chmod(f'/out/s{n}', 0o755)
try:
    subprocess.run(['/out/s0'])
except OSError as e:
    print(e)
since = time.monotonic()
time.sleep(1)
print('DONE' if not 0.9 < time.monotonic() - since < 1.5 else 'SEEN', 'the clock')
print('ALL', flush=True)
END
  scaled; tried
}
# Nodes and links with names that the harness has for parts of its own, or the kernel for files of control groups.
names_of_the_harness() {
  local name code=0
  for name in tasks emu c slack node-a init keeper nodes harness disks burner localhost all default lo eth0 con null \
    true yes "1" 0x10; do
    experiment 'cat /etc/hostname; echo ALL'
    sed -i "s/nodes: { a:/nodes: { \"$name\":/; s/exited: .a./exited: [\"$name\"]/" lab/experiment.yaml
    rm -rf out; run >said 2>&1
    local ended=$?
    sound $ended && { [ $ended = 2 ] || grep -q ALL "out/nodes/$name/stdout.log"; } ||
      { echo "$name: $ended"; tail -n 3 said; code=1; }
  done
  no_run && return $code
}
# What a barrier's server is told by nodes that are no clients of its.
barriers_that_are_told_anything() {
  mkdir -p lab
  cat >lab/try.py <<'END'
import os, socket, time
for n in range(300):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        s = socket.socket(socket.AF_INET, kind)
        s.settimeout(0.5)
        try:
            s.connect(('b', 16534))
            s.send(os.urandom(n * 7 % 1400) + b'\xff' * 64)
        except OSError:
            pass
        if n % 3:
            s.close()
print('ALL', flush=True)
END
  cat >lab/experiment.yaml <<'END'
name: attack
tdf: 1
barriers: b
machines: { m: { speed: 0.3, memory: 128MiB } }
nodes:
  b: { machine: m, run: [sleep, "1000"] }
  a: { machine: m, run: [python3, /try.py], files: { /try.py: try.py } }
  c: { machine: m, after: [a], run: [sh, -c, "/.diorama/barrier -n x -i 1 -a; /.diorama/barrier -n x; echo code $?"] }
links: [ { from: a, to: b, bandwidth: 1Gbit/s, delay: 1ms }, { from: c, to: b, bandwidth: 1Gbit/s, delay: 1ms } ]
ends: { exited: [a, c], limit: 200s }
END
  run >said 2>&1; tail -n 3 said; grep -q ALL out/nodes/a/stdout.log && grep -q 'code 0' out/nodes/c/stdout.log
}
# The socket at which a dilation is told its factor, made where everybody may come.
a_dilation_that_others_speed_up() {
  local code=0 pid
  mkdir -m 777 everybodys
  (umask 0; exec "$diorama" dilate --tdf 4 --control "$PWD/everybodys/socket" -- sleep 3) >said 2>&1 &
  pid=$!
  local n; for n in $(seq 100); do [ ! -S everybodys/socket ] || break; sleep 0.1; done
  as_nobody python3 -c "import socket
for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET, socket.SOCK_DGRAM):
    s = socket.socket(socket.AF_UNIX, kind)
    try:
        s.connect('$PWD/everybodys/socket')
        print('CONNECTED')
    except OSError as e:
        print(e)" | tee connected
  [ -S everybodys/socket ] || echo 'no socket'
  wait $pid
  ! grep -q CONNECTED connected && return $code
}

# until_said WORD: waits until the node has said so.
until_said() {
  local n
  for n in $(seq 1800); do
    ! grep -q "$1" out/nodes/a/stdout.log 2>/dev/null || return 0
    [ -n "$(jobs -rp)" ] || return 1
    sleep 0.1
  done
}
# available: memory of the host that is, in KiB.
available() { awk '/MemAvailable/ { print $2 }' /proc/meminfo; }
# lacks_little_of BEFORE: runs the lab; when its node has said ALL, less than 700 MB lack of what was available before.
lacks_little_of() {
  local after
  run >running 2>&1 &
  until_said ALL
  after=$(available)
  echo "before $1 KiB, then $after KiB"
  wait $!; [ $(($1 - after)) -lt 700000 ]
}
# lan: `python` with a neighbour and a link to it.
lan() {
  python
  sed -i 's/^nodes: { a: \(.*\) }$/nodes: { a: \1, b: { machine: m, run: [sleep, "1000"] } }/' lab/experiment.yaml
  sed -i 's/speed: 0.7/speed: 0.3/' lab/experiment.yaml
  echo 'links: [ { from: a, to: b, bandwidth: 1Gbit/s, delay: 1ms } ]' >>lab/experiment.yaml
}
# Settings of the host's that nobody but root may have changed.
state_of_the_host() {
  uname -n; cat /proc/sys/kernel/{hostname,domainname,core_pattern,panic,sysrq,printk} /proc/sys/vm/swappiness
  ip -br link; ulimit -a; awk '{ print $1, $2, $3 }' /proc/mounts | sort | md5sum; chrt -p 1
}

for one in memory_of_sockets families_of_sockets every_call_of_the_kernel doors_in_the_hosts_files \
  a_setuid_program_by_a_nodes_process limits_that_are_ones_own links_for_the_next_boot \
  an_image_with_links_for_what_is_written names_that_are_paths a_search_behind_links a_queue_of_somebody_else \
  a_new_experiment_behind_a_link directories_of_the_environment words_that_a_terminal_would_obey \
  numbers_beyond_all_measure a_record_of_pipes a_flood_of_connections a_node_that_is_busy_when_it_is_to_end \
  memory_that_is_nobodys programs_that_cannot_be_read names_of_the_harness barriers_that_are_told_anything \
  a_dilation_that_others_speed_up; do
  attack "$one"
done
visits_to_paths() { lent visits_by_paths; }
attack visits_to_paths
dangerous neighbours_of_the_whole_machine
dangerous tables_of_packet_filters
dangerous large_pages_of_the_host
