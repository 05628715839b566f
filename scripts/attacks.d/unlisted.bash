# Attacks that are in none of the other lists: what a run notes of nodes' programs, what files say of many nodes at
# once, modules of the host's kernel, and who stands still.

# engine: the process of the run; memory_of_engine: what it has, in KiB.
engine() { pgrep -n -f 'diorama run lab --wait'; }
memory_of_engine() { awk '/^VmRSS/ { print $2 }' "/proc/$(engine)/status"; }

# Programs that run, of fifteen terabytes each, of which checksums are made at the end.
programs_without_an_end() {
  python <<'END'
import os, shutil, subprocess, time
kept = []
for n in range(3):
    shutil.copy('/bin/sleep', f'/out/s{n}')
    for length in (15 << 40, 7 << 40, 1 << 40, 60 << 30):
        try:
            os.truncate(f'/out/s{n}', length)
            break
        except OSError as e:
            print(e)
    kept.append(subprocess.Popen([f'/out/s{n}', '1000']))
print('ALL', flush=True)
time.sleep(4)
END
  local since=$SECONDS
  run >said 2>&1; tail -n 2 said
  echo "$((SECONDS - since)) s"; grep -o '"/out/[^,]*' out/plan.json
  tried && grep -q 'not summed' out/plan.json && [ $((SECONDS - since)) -lt 200 ]
}
# Programs of a hundred names each second, each of which is noted, and open until the end.
programs_of_many_names() {
  python <<'END'
import os, shutil, subprocess, time
os.makedirs('/out/n')
shutil.copy('/bin/sleep', '/out/sleep')
for n in range(1500):
    os.link('/out/sleep', f'/out/n/{n}')
    subprocess.Popen([f'/out/n/{n}', '1000'])
print('ALL', flush=True)
time.sleep(6)
END
  sed -i 's/128MiB/1GiB/' lab/experiment.yaml
  run >running 2>&1 &
  local pid=$! most
  until_said ALL; sleep 3
  most=$(find "/proc/$(engine)/fd" -maxdepth 1 -lname '*/out/n/*' | wc -l)
  wait $pid; tail -n 2 running
  echo "$most of them open; noted: $(grep -c '"/out/n/' out/plan.json)"
  tried && [ "$(grep -c '"/out/n/' out/plan.json)" -le 1000 ] && grep -q '(others)' out/plan.json
}
# Names of programs that dpkg takes for patterns, and compares with each file of the host.
programs_whose_names_are_patterns() {
  python <<'END'
import os, shutil, subprocess, time
shutil.copy('/bin/sleep', '/out/sleep')
for n in range(100):
    name = '/out/' + '*a' * 60 + f'*{n}?[!b]'
    os.link('/out/sleep', name)
    subprocess.Popen([name, '1000'])
os.makedirs('/out/x\n/bin')
os.link('/out/sleep', '/out/x\n/bin/sh: y')
subprocess.Popen(['/out/x\n/bin/sh: y', '1000'])
print('ALL', flush=True)
time.sleep(3)
END
  run >running 2>&1 &
  local pid=$! n
  until_said ALL; sleep 4
  # The end, without what emulated machines take for what comes before.
  for n in $(seq 1200); do kill -0 $pid 2>/dev/null || break; sleep 0.1; done
  [ "$n" -lt 1200 ] || { pgrep -af dpkg-query; kill $pid; }
  wait $pid; tail -n 2 running; tried && [ "$n" -lt 1200 ]
}
# Names of programs that a terminal or a browser would obey, of programs that are dilated.
programs_whose_names_are_obeyed() {
  python <<'END'
import ctypes, os, shutil, subprocess, time
for name in ('\033]0;owned\007', '<script>alert(1)<', '=cmd|x,"1"', '\u009b2J\u202e'):
    path = '/out/' + name
    shutil.copy('/bin/sleep', path)
    subprocess.Popen([path, '1000'])
ctypes.CDLL(None).prctl(15, b'\033]0;own\007<b>')
print('ALL', flush=True)
time.sleep(3)
END
  scaled >said 2>&1
  "$diorama" events out >>said 2>&1
  "$diorama" compare out out >>said 2>&1
  cat -v said | tail -n 5
  tried && ! grep -q $'\033\]0;own' said && ! grep -q $'\302\233\|\342\200\256' said &&
    ! grep -q '<script>alert' out/report.html
}
# Modules that the host's kernel loads for whoever asks: by families of sockets, pairs of them, and terminals.
modules_of_the_host() {
  modules() { cut -d' ' -f1 /proc/modules | sort; }
  # What a run itself has loaded does not count.
  experiment true && run >said 2>&1 || { cat said; return 1; }
  rm -rf out lab; modules >before
  python <<'END'
import fcntl, os, socket, struct
for family in range(3, 46):
    if family in (10, 16, 17):
        continue
    for kind in (1, 2, 3, 5):
        for make in (socket.socket, socket.socketpair):
            try:
                make(family, kind, 0)
                print('DONE', family, kind, make.__name__, flush=True)
            except OSError:
                pass
fd = os.open('/dev/ptmx', os.O_RDWR | os.O_NOCTTY)
for discipline in range(1, 31):
    try:
        fcntl.ioctl(fd, 0x5423, struct.pack('i', discipline))
        print('DONE discipline', discipline, flush=True)
    except OSError:
        pass
print('ALL')
END
  run >said 2>&1; modules >after
  comm -13 before after | tee new
  tried && [ ! -s new ]
}
# What files say of many nodes at once, in a megabyte: each is refused in bounded memory.
files_that_become_more() {
  local text code=0 n
  many() { printf 'name: x\ntdf: 1\nmachines: { m: { speed: 1, memory: 64MiB } }\nends: { limit: 600s }\n'; cat; }
  { printf 'nodes: { a: { machine: m, count: 10000, run: "'; head -c 900000 /dev/zero | tr '\0' y; echo '" } }'; } |
    many >1.yaml
  { echo 'nodes: { a: { machine: m, count: 10000, run: x } }'
    printf 'events: [ { at: 1s, node: "*", program: p, run: "'; head -c 900000 /dev/zero | tr '\0' y
    echo '" } ]'; } | many >2.yaml
  { echo 'nodes: { a: { machine: m, count: 9999, run: x } }'; echo 'events:'
    yes '- { at: 1s, partition: [[a-1]] }' | head -n 20000; } | many >3.yaml
  { echo 'nodes: { a: { machine: m, count: 9999, run: x } }'
    echo 'chaos: { seed: 1, faults: { partition: { every: 1ms, for: 1ms } } }'; } | many >4.yaml
  { echo 'nodes: { a: { machine: m, count: 9999, run: x } }'; echo 'metrics:'
    for n in $(seq 5000); do echo "  m$n: { nodes: '*', rows: /x, value: 1, unit: s }"; done; } | many >5.yaml
  { echo 'nodes: { a: { machine: m, run: x } }'; echo 'metrics:'
    for n in $(seq 5000); do echo "  m$n: { nodes: a, line: '$n(\\w{20})', from: stdout, combine: sum, unit: s }"; done
  } | many >6.yaml
  { echo 'nodes: { a: { machine: m, count: 5000, run: x }, b: { machine: m, count: 5000, run: x, after: ["a-*"] } }'
  } | many >7.yaml
  { echo 'nodes: { a: { machine: m, run: x } }'; echo 'events:'
    for n in $(seq 9000); do echo "- { at: 1s, after: s$((n + 1)), as: s$n, node: a, program: p$n, run: x }"; done
    echo '- { at: 1s, as: s9001, node: a, program: p, run: x }'; echo 'nothing: 1'; } | many >8.yaml
  for n in 1 2 3 4 5 6 7 8; do refused . "$diorama" check $n.yaml | cut -c 1-300 || { echo "$n.yaml"; code=1; }; done
  return $code
}
# A visitor who stands still, while his command prints without an end.
a_visitor_who_stands_still() { lent with_a_visitor; }
with_a_visitor() {
  "$diorama" exec out a -- sh -c 'while :; do yes; done' >/dev/null </dev/null &
  local visitor=$! kib
  sleep 1; kill -STOP $visitor; sleep 8
  kib=$(memory_of_engine)
  timeout 60 "$diorama" exec out a -- true </dev/null || return 1
  kill -KILL $visitor
  echo "$kib KiB"; [ "$kib" -lt 400000 ]
}
# Who comes by a port and takes nothing, or leaves only half.
those_who_come_by_a_port_and_stay() {
  python <<'END'
import os, socket, threading, time
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(('', 80))
s.listen(64)
def flood(c):
    try:
        while True:
            c.sendall(b'x' * 65536)
    except OSError:
        pass
def serve():
    while True:
        threading.Thread(target=flood, args=(s.accept()[0],), daemon=True).start()
threading.Thread(target=serve, daemon=True).start()
time.sleep(20)
print('ALL', flush=True)
os._exit(0)
END
  sed -i 's/machine: m,/machine: m, ports: { 28081: 80 },/' lab/experiment.yaml
  run >running 2>&1 &
  local pid=$! kib
  until_there; sleep 2
  as_nobody python3 - <<'END' &
import socket, time
kept = [socket.create_connection(('127.0.0.1', 28081)) for n in range(64)]
for s in kept[::2]:
    s.shutdown(socket.SHUT_WR)
time.sleep(300)
END
  local client=$!
  sleep 10
  kib=$(memory_of_engine)
  echo "$kib KiB"
  wait $pid; local code=$?
  kill $client; echo "ended with $code"
  tried && [ "$kib" -lt 400000 ]
}
# `watch`, at a terminal, of a run whose node prints what it would obey; in a folder of such a name.
a_watch_that_a_terminal_would_obey() {
  experiment 'for i in 1 2 3 4 5 6 7 8; do printf "\033]0;owned\007\302\2332J\033[31m$i\n"; sleep 1; done; exit 3'
  sed -i 's/tdf: 1/tdf: 2/' lab/experiment.yaml
  local place=$'x\033]0;owned\007'
  mkdir "$place" && mv lab "$place/"
  (cd "$place" && timeout -k 5 560 "$diorama" run lab --wait --out out) >running 2>&1 &
  until_there
  (cd "$place" && COLUMNS=120 LINES=40 timeout 60 script -qec "stty rows 40 cols 120; '$diorama' watch out" /dev/null \
    </dev/null) >said 2>&1
  wait $!
  [ -s said ] && ! grep -q $'\033\]0;owned' said && ! grep -q $'\302\233' said
}
# Dates of nodes beyond all time.
dates_beyond_all_time() {
  local offset code=0
  for offset in 1000h -1000h 290y 9223372036854775807ns -9223372036854775808ns 300000h -500000h 9e18s; do
    rm -rf out
    experiment 'date +%s; sleep 2; date +%s; : >/out/x; ls -l /out; echo ALL'
    echo "events: [ { at: 1s, node: a, do: clock, offset: $offset, drift: 10% } ]" >>lab/experiment.yaml
    run >said 2>&1; sound $? && no_run || { echo "$offset"; tail -n 3 said; code=1; }
    tail -n 1 said | cut -c 1-200
  done
  return $code
}
# An image whose settings are more than a program can be given.
an_image_of_endless_settings() {
  packed <<'END'
import os
for name in ('bin', 'lib', 'lib64'):
    file(t, name, type=b'2', linkname='usr/' + name)
for path in ('/usr/bin/dash', '/lib/x86_64-linux-gnu/libc.so.6', '/lib64/ld-linux-x86-64.so.2'):
    with open(path, 'rb') as from_file:
        file(t, 'usr' + path.removeprefix('/usr'), from_file.read(), mode=0o755)
file(t, 'usr/bin/sh', type=b'2', linkname='dash')
END
  python3 - <<'END'
import io, json, tarfile
with tarfile.open('image.tar') as old:
    layer = old.extractfile('layer.tar').read()
settings = {'Env': [f'A{n}=' + 'x' * 100 for n in range(100000)], 'Cmd': ['sh'] * 100000, 'User': '0' * 100000,
            'WorkingDir': '/' + 'd/' * 100000}
for number, key in enumerate(settings):
    config = json.dumps({'architecture': 'amd64', 'os': 'linux', 'config': {key: settings[key]},
                         'rootfs': {'type': 'layers', 'diff_ids': []}}).encode()
    with tarfile.open(f'{number}.tar', 'w') as t:
        manifest = json.dumps([{'Config': 'c.json', 'Layers': ['layer.tar'], 'RepoTags': ['a:1']}]).encode()
        for path, text in (('manifest.json', manifest), ('c.json', config), ('layer.tar', layer)):
            info = tarfile.TarInfo(path)
            info.size = len(text)
            t.addfile(info, io.BytesIO(text))
END
  local n code=0
  for n in 0 1 2 3; do
    rm -rf out; experiment 'echo ALL' "root: ../$n.tar"
    run >said 2>&1; sound $? && no_run || { echo $n; code=1; }
    tail -n 1 said | cut -c 1-200
    echo "services: { a: { image: 'a:1' } }" >compose.yaml
    (ulimit -v 900000; timeout 60 "$diorama" convert compose.yaml --images $n.tar) >said 2>&1
    local ended=$?
    sound $ended && [ $ended != 124 ] || { echo "convert $n: $ended"; code=1; }
  done
  return $code
}
# Interfaces whose names would begin a formula, or end a field.
interfaces_of_any_name() {
  lan <<'END'
import subprocess
for name in ('=1+1,"x"', '-x', '\033[2J', '../x'):
    done = subprocess.run(['ip', 'link', 'add', name, 'type', 'dummy'], capture_output=True, text=True)
    print(done.returncode, done.stderr.strip())
subprocess.run('ip link set eth0 down; ip link set eth0 name "=1+1,\\"x"; ip link set dev "=1+1,\\"x" up', shell=True)
print('ALL', flush=True)
END
  run >said 2>&1; tail -n 2 said; cat -v out/ports.csv
  tried && ! grep -rlF '=1+1' out --include='*.csv' --include=report.html
}
# Logs of which little is kept, and that may hardly be written, of a node that floods them, when it is to end.
logs_that_are_hardly_written() {
  experiment 'yes'
  printf 'logs: 1MiB\nlog_rate: 1bit/s\n' >>lab/experiment.yaml
  env --default-signal=INT "$diorama" run lab --wait --variant baseline --out out >running 2>&1 &
  local pid=$! since code=0
  until_there; sleep 3
  since=${EPOCHREALTIME/./}
  kill -INT $pid; wait $pid || code=$?
  since=$((${EPOCHREALTIME/./} - since))
  echo "ended with $code after $since us"; [ $code = 130 ] && [ $since -lt "$most" ] && [ -s out/result.json ]
}
# A capture that fills the disk of the results, on which others are, too.
a_capture_of_all_that_there_is() {
  mount -t tmpfs -o size=64m attack /home || return
  lan <<'END'
import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
end = time.time() + 200
while time.time() < end:
    try:
        s.sendto(b'x' * 1400, ('b', 9))
    except OSError:
        time.sleep(0.001)
END
  sed -i 's/delay: 1ms }/delay: 1ms, capture: true }/; s/limit: 200s/limit: 300s/' lab/experiment.yaml
  OUT=/home/out run >said 2>&1; tail -n 3 said
  df /home; grep 'stay free' /home/out/result.json
  local code=$?
  umount -l /home
  return $code
}

for one in programs_without_an_end programs_of_many_names programs_whose_names_are_patterns \
  programs_whose_names_are_obeyed modules_of_the_host files_that_become_more a_visitor_who_stands_still \
  those_who_come_by_a_port_and_stay a_watch_that_a_terminal_would_obey dates_beyond_all_time \
  an_image_of_endless_settings interfaces_of_any_name logs_that_are_hardly_written; do
  attack "$one"
done
dangerous a_capture_of_all_that_there_is
