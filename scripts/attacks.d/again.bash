# Attacks by one more reader, who had the list of all others and left out what is in it.

# What the kernel counts for each user, or for all: root of a node takes all that there is, and the host has some left.
what_the_host_has_few_of() {
  python <<'END'
import ctypes, os, resource, time
libc = ctypes.CDLL(None, use_errno=True)
limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
count = 0
while count < 1000 and libc.fanotify_init(0x200, 0) >= 0:
    count += 1
kept = []
try:
    while True:
        kept.append(os.open('/dev/ptmx', os.O_RDWR | os.O_NOCTTY))
except OSError:
    pass
print('fanotify', count, 'terminals', len(kept), flush=True)
if len(kept) > 1000:
    print('DONE all terminals')
if libc.syscall(447, 0) >= 0:
    print('DONE memfd_secret')
print('ALL', flush=True)
time.sleep(20)
END
  run >running 2>&1 &
  until_there || return
  sleep 12
  python3 -c 'import ctypes; exit(ctypes.CDLL(None).fanotify_init(0x200, 0) < 0)' || { echo 'no fanotify'; return 1; }
  script -qec true /dev/null || return 1
  wait $!; tried
}
# Who joins a node is seen there: its program, which is a file of the host's, its directories, and what it has open.
programs_that_join() {
  mkdir -p lab
  cat >lab/watch.py <<'END'
import os, time
end, seen, fds = time.time() + 25, set(), []
while time.time() < end:
    for pid in filter(str.isdigit, os.listdir('/proc')):
        at = '/proc/' + pid
        if pid == str(os.getpid()):
            continue
        try:
            with open(at + '/environ', 'rb', 0) as file:
                if b'TOP-SECRET' in file.read():
                    print('DONE the environment of', os.readlink(at + '/exe'), flush=True)
        except OSError:
            pass
        for what in ('exe', 'cwd', 'root'):
            try:
                fds.append((os.open(f'{at}/{what}', os.O_PATH), os.readlink(f'{at}/{what}'), what))
            except OSError:
                pass
        try:
            for fd in os.listdir(at + '/fd'):
                to = os.readlink(f'{at}/fd/{fd}')
                if to.startswith('/') and not to.startswith('/dev/') and not to.startswith('/proc'):
                    print('SEEN', to, flush=True)
                    if os.path.isdir(f'{at}/fd/{fd}'):
                        print('DONE a directory', to, os.listdir(f'{at}/fd/{fd}')[:5], flush=True)
        except OSError:
            pass
    for fd, name, what in fds:
        if name in seen:
            os.close(fd)
            continue
        seen.add(name)
        try:
            own = os.path.samestat(os.stat(fd), os.stat(name))
        except OSError:
            own = False
        print('SEEN', what, name, 'of the node' if own else 'of the host', flush=True)
        if what == 'exe' and not own:
            try:
                os.close(os.open(f'/proc/self/fd/{fd}', os.O_WRONLY))
                print('DONE may write to', name, flush=True)
            except OSError as e:
                print('SEEN', e, flush=True)
        if what != 'exe' and os.path.exists(f'/proc/self/fd/{fd}/run/diorama'):
            print('DONE the host by', name, flush=True)
        os.close(fd)
    fds = []
print('ALL')
END
  experiment 'python3 /watch.py' 'files: { /watch.py: watch.py }, ready: { run: [/bin/true] }'
  sed -i 's/limit: 60s/limit: 100s/' lab/experiment.yaml
  HOST_SECRET=TOP-SECRET run >running 2>&1 &
  local n
  until_there
  for n in 1 2 3 4 5 6 7 8; do HOST_SECRET=TOP-SECRET timeout 20 "$diorama" exec out a -- /bin/true </dev/null; done
  wait $!; tried
}
# Where a program begins to work: what the runtime still has open, as in CVE-2024-21626.
a_directory_that_the_runtime_has_open() {
  local n
  for n in 3 5 6 7 8 9 10; do
    experiment 'cat /proc/self/cwd/etc/shadow ../../../../../../../etc/shadow; ls -a; echo ALL' "cwd: /proc/self/fd/$n"
    OUT=out$n run >said 2>&1
    tail -n 3 said; ! grep -rq 'root:[$!*]' "out$n/nodes" || return 1
  done
}
# What the runtime mounts over leads elsewhere in the image.
an_image_whose_proc_is_a_link() {
  local code=0 place before
  mkdir victim; before=$(ls /etc | wc -l)
  for place in proc sys dev etc .diorama; do
    rm -rf root out; mkdir root
    cp -a /bin /sbin /lib /lib64 root/ 2>/dev/null
    mkdir -p root/usr/bin root/usr/lib root/dev && cp -a /usr/bin/{dash,sh,cat,ls} root/usr/bin/
    cp -aL --parents /usr/lib/x86_64-linux-gnu/{libc.so.6,libselinux.so.1,libpcre2-8.so.0} \
      /usr/lib64/ld-linux-x86-64.so.2 root/
    rm -rf "root/$place"; ln -s "$PWD/victim" "root/$place"
    experiment 'cat /etc/shadow; echo ALL' 'root: ../root'
    run >said 2>&1; tail -n 3 said
    [ -z "$(ls -A victim)" ] && [ "$before" = "$(ls /etc | wc -l)" ] || { echo "$place"; ls -A victim; code=1; }
    ! grep -rq 'root:[$!*]' out/nodes || code=1
  done
  return $code
}
# A lease on the file of rows, whose breaking whoever opens it waits for.
rows_with_a_lease() {
  python <<'END'
import fcntl, os, signal, time
signal.signal(signal.SIGIO, signal.SIG_IGN)
open('/out/log', 'w').write('1\n')
fd = os.open('/out/log', os.O_RDWR)
try:
    fcntl.fcntl(fd, 1024, fcntl.F_WRLCK)
except OSError as e:
    print(e)
print('ALL', flush=True)
time.sleep(1000)
END
  sed -i 's/limit: 200s/limit: 8s/; s/exited: .a., //' lab/experiment.yaml
  echo 'metrics: { x: { nodes: a, rows: /out/log, value: 1, unit: us } }' >>lab/experiment.yaml
  local since=$SECONDS
  run; [ -s out/result.json ] && [ $((SECONDS - since)) -lt 120 ]
}
# All of a node's programs are stopped by others at their exec, where the harness has to do something to them, too.
programs_that_are_stopped_at_exec() {
  mkdir -p lab
  cat >lab/stop.py <<'END'
import ctypes, os, time
libc = ctypes.CDLL(None, use_errno=True)
for n in range(150):
    child = os.fork()
    if child == 0:
        libc.ptrace(0, 0, 0, 0)
        os.execv('/bin/sleep', ['sleep', '1000'])
time.sleep(1000)
END
  cat >lab/experiment.yaml <<'END'
name: attack
tdf: 2
machines: { m: { speed: 0.2, memory: 256MiB } }
nodes:
  a: { machine: m, run: [python3, /stop.py], files: { /stop.py: stop.py } }
  b: { machine: m, run: [sh, -c, "sleep 2; i=0; while [ $i -lt 20 ]; do /bin/true; i=$((i+1)); done; echo ALL"] }
ends: { exited: [b], limit: 100s }
END
  timeout -k 5 280 "$diorama" run lab --wait --out out; grep -q ALL out/nodes/b/stdout.log
}
# What the harness reads a node's log from is at the node's disposal, too: settings of the pipe.
a_log_that_is_spoilt() {
  python <<'END'
import fcntl, os, signal, sys
signal.signal(signal.SIGIO, signal.SIG_IGN)
for fd in (1, 2):
    for what in ((1031, 4096), (fcntl.F_SETFL, os.O_NONBLOCK | os.O_ASYNC | os.O_APPEND), (10, 29)):
        try:
            fcntl.fcntl(fd, *what)
        except OSError as e:
            print(e)
    other = os.open(f'/proc/self/fd/{fd}', os.O_RDWR | os.O_NONBLOCK)
    os.set_inheritable(other, True)
fcntl.fcntl(1, fcntl.F_SETFL, 0)
print('ALL', flush=True)
END
  run && grep -q ALL out/nodes/a/stdout.log && [ -s out/result.json ]
}
# Of the kernel's families of messages, those that act on the whole machine: records of audit, servers, devices.
messages_to_the_kernel() {
  python <<'END'
import os, socket, struct
def ask(protocol, kind, flags, payload):
    s = socket.socket(16, 3, protocol)
    s.settimeout(3)
    s.sendto(struct.pack('IHHII', 16 + len(payload), kind, flags, 1, 0) + payload, (0, 0))
    return s.recv(65536)
try:
    answer = ask(9, 1005, 5, b'op=forged by a node\0')
    if struct.unpack('i', answer[16:20])[0] == 0:
        print('DONE audit')
except OSError as e:
    print('audit', e)
families = {}
s = socket.socket(16, 3, 16)
s.settimeout(3)
s.sendto(struct.pack('IHHIIBBH', 20, 16, 0x301, 1, 0, 3, 1, 0), (0, 0))
while True:
    data = s.recv(1 << 16)
    at, over = 0, False
    while at < len(data):
        length, kind = struct.unpack('IH', data[at:at + 6])
        if kind == 3:
            over = True
        body, number, name = data[at + 20:at + length], None, None
        while len(body) >= 4:
            n, t = struct.unpack('HH', body[:4])
            if t == 1: number = struct.unpack('H', body[4:6])[0]
            if t == 2: name = body[4:n - 1].decode()
            body = body[max(4, (n + 3) & ~3):]
        families[name] = number
        at += max(16, (length + 3) & ~3)
    if over:
        break
print('families', sorted(filter(None, families)))
for name in ('nbd', 'thermal', 'acpi_event', 'NET_DM', 'vdpa', 'dpll'):
    if name in families:
        print('DONE', name)
try:
    name = b'nfsd\0'
    print(ask(16, 16, 5, struct.pack('BBH', 3, 1, 0) + struct.pack('HH', 4 + len(name), 2) + name + b'\0' * 3)[16:20])
except OSError as e:
    print(e)
print('ALL')
END
  run; tried
}
# The node's interface in the namespace of somebody else: of the host, by any name that it has there.
an_interface_in_the_hosts_namespace() {
  mkdir -p lab
  cat >lab/experiment.yaml <<'END'
name: attack
tdf: 1
machines: { m: { speed: 0.2, memory: 128MiB } }
nodes:
  a:
    machine: m
    run:
      - sh
      - -c
      - "for n in 1 2 $(seq 3 40); do ip link add moved$n type dummy; ip link set moved$n netns $n; done;
        ip link add x type veth peer name attack0 netns /proc/1/ns/net; ip netns add y; echo ALL"
  b: { machine: m, run: [sleep, "600"] }
links: [ { from: a, to: b, bandwidth: 1Gbit/s, delay: 1ms } ]
ends: { exited: [a], limit: 60s }
END
  run; ip -br link | grep 'moved\|attack0' && return 1; grep -q ALL out/nodes/a/stdout.log
}
# What only root may read of the kernel: settings, and nothing else.
files_that_only_root_may_read() {
  python <<'END'
import os, stat
for top in ('/proc', '/sys'):
    for place, dirs, files in os.walk(top):
        if top == place:
            dirs[:] = [d for d in dirs if not d.isdigit() and d not in ('self', 'thread-self')]
        for name in files:
            at = os.path.join(place, name)
            try:
                mode = os.lstat(at).st_mode
                if stat.S_ISREG(mode) and not mode & 0o004 and not at.startswith('/sys/fs/cgroup'):
                    with open(at, 'rb', 0) as file:
                        file.read(100)
                    print('SEEN' if at.startswith('/proc/sys/') else 'DONE', at)
            except OSError:
                pass
print('ALL')
END
  run; tried
}
# Names that become those of files, or of places in a node.
names_that_become_files() {
  local name code=0
  for name in '../../x' '/tmp/attack-was-here' '..' '.' 'a/b' "$(head -c 300 /dev/zero | tr '\0' x)"; do
    experiment true
    echo "metrics: { \"$name\": { nodes: a, line: x, from: stdout, combine: sum, unit: s } }" >>lab/experiment.yaml
    refused . "$diorama" check lab || { echo "metric $name"; code=1; }
    experiment true
    sed -i "s#nodes: { a:#nodes: { \"$name\":#" lab/experiment.yaml
    refused . "$diorama" check lab || { echo "node $name"; code=1; }
  done
  return $code
}
files_that_are_put_anywhere() {
  local to code=0
  mkdir -p lab; echo "$$" >lab/mark
  for to in /../../../../tmp/attack-was-here /proc/1/root/tmp/attack-was-here /.diorama/x / /etc/hosts/x; do
    experiment 'echo ALL' "files: { \"$to\": mark }"
    rm -rf out; run >said 2>&1; sound $? || code=1
    tail -n 2 said
  done
  [ ! -e /tmp/attack-was-here ] || { rm -f /tmp/attack-was-here; code=1; }
  return $code
}
# Rows are read from what is none.
rows_of_the_kernel() {
  local from code=0
  for from in /proc/1/environ /proc/self/fd/0 /dev/zero ../../etc/shadow /.diorama; do
    rm -rf out; experiment 'echo 1 >/out/log'
    echo "metrics: { x: { nodes: a, rows: \"$from\", value: 1, unit: us } }" >>lab/experiment.yaml
    HOST_SECRET=TOP-SECRET run >said 2>&1; sound $? || code=1
    tail -n 2 said; ! grep -q 'TOP-SECRET\|root:[$!*]' said || code=1
  done
  return $code
}
# Words of any kind for what a node is started with.
words_of_any_kind() {
  local more code=0
  for more in 'hostname: "a\nb"' 'hostname: "../x"' 'env: { "A=B": c }' 'env: { A: "\0" }' 'cwd: "a"' 'cwd: "/\0"' \
    'user: "4294967295"' 'user: "root:4294967296"' 'env: { LD_PRELOAD: /x.so, "": x }' \
    "env: { A: $(head -c 3000000 /dev/zero | tr '\0' x) }"; do
    rm -rf out; experiment 'echo ALL' "$more"
    run >said 2>&1; sound $? && no_run || code=1
    tail -n 1 said | cut -c 1-200
  done
  return $code
}
# Files that are none, in a folder that is copied into a node.
a_folder_of_anything() {
  mkdir -p lab/all
  (cd lab/all && mkfifo fifo && ln -s /etc/shadow link && ln -s . round && mknod device c 1 5
    python3 -c 'import socket; socket.socket(1).bind("socket")'
    truncate -s 1M long)
  experiment 'cat /all/link; echo ALL' 'files: { /all: all }'
  timeout -k 5 100 "$diorama" run lab --wait --variant baseline --out out >said 2>&1
  local code=$?
  tail -n 3 said; sound $code && [ $code != 124 ] && [ $code != 137 ] && ! grep -rq 'root:[$!*]' out
}

# An image whose own texts have no end.
an_image_of_endless_texts() {
  python3 - <<'END'
import io, tarfile
def archive(name, manifest, config):
    with tarfile.open(name, 'w') as t:
        for path, text in (('manifest.json', manifest), ('c.json', config)):
            info = tarfile.TarInfo(path)
            info.size = len(text)
            t.addfile(info, io.BytesIO(text))
good = b'{"architecture":"amd64","os":"linux","config":{},"rootfs":{"type":"layers","diff_ids":[]}}'
long = b' ' * 100_000_000
archive('1.tar', b'[' + long, good)
archive('2.tar', b'[{"Config":"c.json","Layers":[]}]', good[:-1] + long)
archive('3.tar', b'[{"Config":"c.json","Layers":[' + b','.join([b'"c.json"'] * 2_000_000) + b']}]', good)
END
  local n
  for n in 1 2 3; do
    experiment true "root: ../$n.tar"
    refused . "$diorama" run lab --wait --variant baseline --out out || return 1
  done
}
# A layer of millions of nothing, each packed by itself.
a_layer_of_empty_members() {
  python3 - <<'END'
import gzip, io, tarfile
one = gzip.compress(b'')
layer = one * 6_000_000
config = b'{"architecture":"amd64","os":"linux","config":{},"rootfs":{"type":"layers","diff_ids":[]}}'
with tarfile.open('image.tar', 'w') as t:
    for path, text in (('manifest.json', b'[{"Config":"c.json","Layers":["l"]}]'), ('c.json', config), ('l', layer)):
        info = tarfile.TarInfo(path)
        info.size = len(text)
        t.addfile(info, io.BytesIO(text))
END
  experiment 'sleep 60' 'root: ../image.tar'
  (ended_by TERM 1 "$diorama" run lab --wait --variant baseline --out out) || { grep -q 'image' said && no_run; }
}
# An image's list of users, by which a name becomes a number.
an_image_with_endless_users() {
  python3 - <<'END'
import gzip, io, tarfile
layer = io.BytesIO()
with tarfile.open(fileobj=layer, mode='w:gz', compresslevel=1) as t:
    text = b'a:x:1:1::/:/bin/sh\n' * 5_000_000
    info = tarfile.TarInfo('etc/passwd')
    info.size = len(text)
    t.addfile(info, io.BytesIO(text))
config = b'{"architecture":"amd64","os":"linux","config":{"User":"b"},"rootfs":{"type":"layers","diff_ids":[]}}'
with tarfile.open('image.tar', 'w') as t:
    manifest = b'[{"Config":"c.json","Layers":["l"]}]'
    for path, text in (('manifest.json', manifest), ('c.json', config), ('l', layer.getvalue())):
        info = tarfile.TarInfo(path)
        info.size = len(text)
        t.addfile(info, io.BytesIO(text))
END
  echo 'services: { a: { image: "image", user: b, command: "true" } }' >compose.yaml
  local code=0
  (ulimit -v 900000; timeout 60 /usr/bin/time -o kib -f %M "$diorama" convert compose.yaml --images image.tar) \
    >said 2>&1 || code=$?
  head -c 1000 said; cat kib; sound $code && [ $code != 124 ] && [ "$(tail -n 1 kib)" -lt 262144 ]
}
# Names in images, and what they say of themselves, on the terminal of who looks at them.
an_image_that_a_terminal_would_obey() {
  packed <<'END'
file(t, 'a\033[2Jb', b'x', type=b'S', pax_headers={'GNU.sparse.major': '7'})
file(t, '../\033]0;owned\007', b'x')
END
  experiment true 'root: ../image.tar'
  run >said 2>&1; cat -v said | tail -n 3; ! grep -q $'\033' said
}
# A page of a run, whose experiment is made of what browsers obey.
a_page_of_an_experiment_that_a_browser_would_obey() {
  experiment 'echo v=1'
  sed -i 's#^name: attack#name: "attack"#' lab/experiment.yaml
  cat >>lab/experiment.yaml <<'END'
metrics:
  "<script>alert(1)</script>": { nodes: a, line: "v=(.)", from: stdout, combine: sum, unit: us }
END
  run >said 2>&1; cat said | tail -n 2
  [ ! -e out/report.html ] || ! grep -q '<script>alert' out/report.html
}

# By sudo: a link of the caller's, or of somebody else in his folder, leads to root's file.
an_experiment_behind_a_symbolic_link() {
  mkdir theirs && printf 'TOP-SECRET: yes\n' >root.yaml && chmod 600 root.yaml && ln -s ../root.yaml theirs/e.yaml
  chown -h 65534 theirs theirs/e.yaml
  as_caller check theirs/e.yaml; ! grep -q SECRET said
}
# By sudo: each other file that is named, behind such a link.
files_behind_symbolic_links() {
  local code=0
  mkdir theirs && printf 'TOP-SECRET: 1\n' >secret && chmod 600 secret
  for name in c.yaml compose.yaml e.ns image.tar a.ptop; do ln -s ../secret "theirs/$name"; done
  experiment true 'root: ../theirs/image.tar'
  chown -hR 65534 theirs
  as_caller map lab --machines theirs/c.yaml; ! grep -q TOP-SECRET said || code=1
  as_caller convert theirs/compose.yaml; ! grep -q TOP-SECRET said || code=1
  as_caller check theirs/e.ns; ! grep -q TOP-SECRET said || code=1
  as_caller run lab --wait --variant baseline --out out; ! grep -q TOP-SECRET said || code=1
  return $code
}
# Who runs Diorama lets everybody write what he makes.
files_that_everybody_may_write() {
  experiment 'echo 1 >/out/log; sleep 3'
  echo 'metrics: { x: { nodes: a, rows: /out/log, value: 1, unit: us } }' >>lab/experiment.yaml
  (umask 0; run) >running 2>&1 &
  until_there
  as_nobody find /run/diorama /var/lib/diorama -writable ! -type l >open 2>/dev/null
  wait $!
  as_nobody find out -writable ! -type l >>open
  cat open; [ ! -s open ]
}
# The folder of all runs is exchanged for a link to another's.
runs_that_are_moved_behind_a_link() {
  experiment true
  mkdir -p victim/attack/baseline theirs && cp -r lab theirs/lab && ln -s "$PWD/victim" theirs/runs
  chown -hR 65534 theirs
  (cd theirs && timeout 100 "$diorama" run lab --wait --variant baseline) >said 2>&1
  tail -n 2 said
  [ "$(ls -A victim/attack)" = baseline ] && [ -z "$(ls -A victim/attack/baseline)" ]
}
# Root's own queue and sweep, in the folder of another user who has put links there.
a_queue_of_roots_behind_a_link() {
  mkdir theirs victim && ln -s "$PWD/victim/made" theirs/q.jobs && ln -s "$PWD/victim/db" theirs/r
  chown -hR 65534 theirs
  timeout 20 "$diorama" batch list --queue theirs/q; timeout 20 "$diorama" batch list --queue theirs/r
  ln -s "$PWD/victim" theirs/s && chown -h 65534 theirs/s
  experiment true; timeout 60 "$diorama" sweep lab --over machines.m.speed=0.1,0.2 --out theirs/s/out
  [ -z "$(ls -A victim)" ]
}
# Programs of the caller's folder, whose names are those that Diorama starts.
programs_beside_the_experiment() {
  local name
  mkdir -p lab
  for name in crun runc tclsh tclsh8.6 ip tc nft mkfs.ext4 modprobe sh diorama skopeo; do
    printf '#!/bin/sh\ntouch %q\n' "$PWD/was-here" >"lab/$name"; chmod 755 "lab/$name"
  done
  experiment true
  echo 'puts hello' >lab/a.ns
  (cd lab && timeout 100 "$diorama" run . --wait --variant baseline --out ../out; timeout 20 "$diorama" check a.ns) \
    >said 2>&1
  tail -n 3 said; [ ! -e was-here ]
}
# What comes by the standard input of one machine's side is that of another machine, which may be anybody's.
a_machine_that_says_anything() {
  local n code
  for n in 1 2 3; do
    code=0
    case $n in
      1) head -c 3000000 /dev/urandom ;;
      2) printf '\377\377\377\177'; head -c 3000000 /dev/zero ;;
      3) yes '{"Prepare":{' | head -c 3000000 ;;
    esac | (ulimit -v 900000; timeout 20 "$diorama" site) >said 2>&1 || code=$?
    head -c 300 said | cat -v; sound $code && [ $code != 124 ] || return 1
  done
}
# Names of files, values and jobs that a terminal would obey, in what is said of them.
names_that_a_terminal_would_obey() {
  local bad=$'x\033]0;owned\007\302\2332J'
  mkdir "$bad" && printf 'name: [\n' >"$bad/experiment.yaml"
  { "$diorama" check "$bad"; "$diorama" check "$bad/none"; "$diorama" logs "$bad"; } >said 2>&1
  "$diorama" compare "$bad" "$bad" >>said 2>&1
  "$diorama" exec "$bad" a -- true >>said 2>&1
  cat -v said; [ -s said ] && ! grep -q $'\033\|\302\233' said
}
values_that_a_terminal_would_obey() {
  experiment true
  "$diorama" check lab --set $'name=x\033]0;owned\007' >said 2>&1
  "$diorama" check lab --set $'nodes.\033[2J=1' >>said 2>&1
  "$diorama" check lab --set $'machines.m.speed=\302\2332J' >>said 2>&1
  cat -v said; [ -s said ] && ! grep -q $'\033\|\302\233' said
}
jobs_that_a_terminal_would_obey() {
  experiment true
  cp -r lab $'lab\033]0;owned\007'
  "$diorama" batch add --queue q $'lab\033]0;owned\007' >said 2>&1
  # Into a file goes what it is.
  script -qec "'$diorama' batch list --queue q; '$diorama' batch show --queue q 1" /dev/null >>said 2>&1
  cat -v said; grep -q owned said && ! grep -q $'\033]0' said
}
for one in what_the_host_has_few_of programs_that_join a_directory_that_the_runtime_has_open \
  an_image_whose_proc_is_a_link rows_with_a_lease programs_that_are_stopped_at_exec a_log_that_is_spoilt \
  messages_to_the_kernel an_interface_in_the_hosts_namespace files_that_only_root_may_read names_that_become_files \
  files_that_are_put_anywhere rows_of_the_kernel words_of_any_kind a_folder_of_anything an_image_of_endless_texts \
  a_layer_of_empty_members an_image_with_endless_users an_image_that_a_terminal_would_obey \
  a_page_of_an_experiment_that_a_browser_would_obey an_experiment_behind_a_symbolic_link files_behind_symbolic_links \
  files_that_everybody_may_write runs_that_are_moved_behind_a_link a_queue_of_roots_behind_a_link \
  programs_beside_the_experiment a_machine_that_says_anything names_that_a_terminal_would_obey \
  values_that_a_terminal_would_obey jobs_that_a_terminal_would_obey; do
  attack "$one"
done
