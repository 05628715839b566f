# Attacks on what is around a run: folders of everybody's, descriptors and limits that a command is started with,
# signals at awkward moments, state that is damaged, images and other texts from elsewhere.

# What Diorama must not end with: a panic, or a signal of its own fault.
sound() { case $1 in 101 | 134 | 135 | 136 | 138 | 139) echo "ended with $1"; return 1 ;; esac; }
# no_run: nothing of this scratch directory's run lives, and the next command works.
no_run() {
  local n
  for n in $(seq 50); do
    pgrep -f "$PWD/lab|attack-sleeper" >/dev/null || break
    sleep 0.2
  done
  ! pgrep -af "$PWD/lab|attack-sleeper" && "$diorama" ps >said 2>&1 && ! grep -qF "$PWD" said &&
    ! grep -q "/var/lib/diorama/[0-9a-f]*-[0-9a-f]*/" /proc/self/mountinfo
}
# begun: a run with a node that sleeps; its process is $engine.
begun() {
  mkdir -p lab && printf '#!/bin/sh\nexec sleep 100001\n' >lab/sleeper && chmod 755 lab/sleeper
  experiment /attack-sleeper 'files: { /attack-sleeper: sleeper }'
  sed -i 's/limit: 60s/limit: 300s/; s/exited: .a., //' lab/experiment.yaml
  env --default-signal=INT,TERM,HUP,QUIT,USR1,USR2,ALRM,PIPE \
    "$diorama" run lab --wait --variant baseline --out out >running 2>&1 &
  engine=$!
  until_there
}

# A folder of root's in which everybody may write: a page where another user has put a link.
a_page_in_a_folder_of_everybody() {
  experiment 'echo v=1'
  echo 'metrics: { x: { nodes: a, line: "v=(.)", from: stdout, combine: sum, unit: us } }' >>lab/experiment.yaml
  run >/dev/null; echo keep >victim
  mkdir -m 777 all && ln -s "$PWD/victim" all/page.html && chown -h 65534 all/page.html
  "$diorama" compare out out --html all/page.html; [ "$(cat victim)" = keep ]
}
# By sudo: another name of a file of root's, in a folder like /tmp.
an_experiment_among_everybodys() {
  mkdir -m 1777 all && printf 'TOP-SECRET: yes\n' >secret.yaml && chmod 600 secret.yaml && ln secret.yaml all/e.yaml
  as_caller check all/e.yaml; ! grep -q SECRET said
}
# A record from elsewhere that a terminal would obey, wherever it has a text.
a_record_that_a_terminal_would_obey() {
  experiment 'echo v=1'
  echo 'metrics: { x: { nodes: a, line: "v=(.)", from: stdout, combine: sum, unit: us } }' >>lab/experiment.yaml
  run >/dev/null && cp -r out other || return
  python3 - other/result.json <<'END'
import json, sys
bad = '\x1b]0;owned\x07\x9b2J'
def spoil(x):
    if isinstance(x, dict):
        return {(k + bad if k == 'x' else k): spoil(v) for k, v in x.items()}
    if isinstance(x, list):
        return [spoil(v) for v in x]
    return x + bad if isinstance(x, str) and x not in ('ok', 'baseline', 'failed', 'trustworthy', 'suspect') else x
record = spoil(json.load(open(sys.argv[1])))
json.dump(record, open(sys.argv[1], 'w'))
END
  script -qec "'$diorama' compare out other; '$diorama' compare other other; '$diorama' logs other" /dev/null >said
  cat -v said; ! grep -q $'\033]0;owned' said && ! grep -q $'\302\233' said
}
# A file for a node that is longer than the disk, and is to be copied when it is to end.
a_file_of_a_terabyte() {
  experiment 'sleep 60' 'files: { /x: big }'
  truncate -s 1T lab/big
  ended_by TERM 4 "$diorama" run lab --wait --variant baseline --out out && no_run
}
# A root with what no root has: directories without an end, loops, pipes.
a_root_that_is_a_maze() {
  mkdir -p root/bin && cp /bin/busybox root/bin/sh 2>/dev/null || return 0
  (cd root && perl -e 'for (1..3000) { mkdir "d" and chdir "d" or last }')
  ln -s . root/loop; ln -s /etc/shadow root/shadow; mkfifo root/fifo; mkdir -m 1777 root/out
  experiment 'cat /shadow /fifo2; echo ALL' 'root: ../root'
  run; rm -rf root
  grep -q ALL out/nodes/a/stdout.log && ! grep -rq 'root:[$!*]' out
}
# Nobody reads what is told; there is nothing to tell it by; there are few descriptors, and small files.
nobody_who_listens() {
  experiment 'sleep 1'
  run | true
  no_run && [ -s out/result.json ]
}
no_descriptors() {
  experiment 'echo said; sleep 1'
  run <&- >&- 2>&-
  no_run && [ "$(cat out/nodes/a/stdout.log)" = said ] && grep -q '"status": "ok"' out/result.json
}
# limited OPTION LIMIT…: runs end as they should, whatever the limit.
limited() {
  local option=$1 limit code
  shift
  for limit; do
    code=0
    (ulimit "$option" "$limit"; OUT=out$limit run) || code=$?
    sound $code && no_run || return 1
  done
}
few_descriptors() { experiment 'sleep 1'; limited -Hn 16 40 70; }
small_files() { experiment 'head -c 100000 /dev/zero; sleep 1'; limited -f 1 8 64; }
# Signals that nobody expects, to the engine and to what holds its nodes.
signals_of_all_kinds() {
  local signal
  for signal in HUP QUIT USR1 ALRM PIPE; do
    begun
    kill -s $signal "$engine"; sleep 1
    kill -s TERM "$engine" 2>/dev/null
    wait "$engine"
    no_run || { echo "after $signal"; return 1; }
    rm -rf out
  done
}
stopped_and_killed() { begun; kill -STOP "$engine"; sleep 0.5; kill -KILL "$engine"; wait "$engine"; no_run; }
its_first_process_is_killed() {
  begun
  pkill -KILL -P "$engine" -f __init
  local code=0
  wait "$engine" || code=$?
  cat running; sound "$code" && no_run && [ -s out/result.json ]
}
# Somebody removes the results while they are written, and puts others in their place.
results_that_are_taken_away() {
  begun
  rm -rf out; ln -s /etc out
  "$diorama" event attack 'do: end'
  local code=0
  wait "$engine" || code=$?
  rm -f out; sound "$code" && no_run && [ ! -e /etc/result.json ]
}
# Events that are none, and long ones.
events_that_are_none() {
  begun
  local text code=0
  for text in '' '{' 'node: a, do: explode' "$(head -c 100000 /dev/zero | tr '\0' x)" \
    "$(printf 'node: [%.0s' $(seq 9000))" $'node: "\033[2J", do: stop'; do
    "$diorama" event attack "$text" >said 2>&1 && code=1
    ! grep -q $'\033' said || code=1
  done
  kill -TERM "$engine"; wait "$engine"
  return $code
}

# The files of a node are saved while it exchanges directories for links.
an_image_of_a_node_that_moves() {
  experiment 'mkdir -p /var/a /var/c; echo own >/var/a/shadow; ln -s /etc /var/b
    while :; do mv -T /var/a /var/x; mv -T /var/b /var/a; mv -T /var/x /var/b; done'
  sed -i 's/limit: 60s/limit: 300s/; s/exited: .a., //' lab/experiment.yaml
  run >running 2>&1 &
  until_there
  local n code=0 at=/var/lib/diorama/images/attack-moves
  for n in 1 2 3; do
    timeout 100 "$diorama" image save out a attack-moves || [ $? != 124 ] || code=1
    for layer in "$at"/oci/blobs/sha256/*; do ! gzip -dc "$layer" 2>/dev/null | grep -aq 'root:[$!*]' || code=1; done
    "$diorama" image remove attack-moves
  done
  "$diorama" event out 'do: end'; wait $!
  return $code
}
# Files of sixteen terabytes that take no room, names of all bytes, pipes, directories in one another.
an_image_of_what_has_no_end() {
  experiment 'truncate -s 15T /var/big; mkfifo /var/fifo; : >"$(printf "/var/a\nb\033[2J")"; ln -s loop /var/loop
    cd /var; perl -e "for (1..2000) { mkdir q(d) and chdir q(d) or last }"; sleep 100000'
  sed -i 's/limit: 60s/limit: 300s/; s/exited: .a., //' lab/experiment.yaml
  run >running 2>&1 &
  until_there; sleep 3
  local code=0
  timeout 200 "$diorama" image save out a attack-endless >said 2>&1 || [ $? != 124 ] || code=1
  cat -v said; ! grep -q $'\033' said || code=1
  [ "$(du -sm /var/lib/diorama/images | cut -f1)" -lt 500 ] || code=1
  "$diorama" image remove attack-endless
  "$diorama" event out 'do: end'; wait $!
  return $code
}

# packed: image.tar of one layer, which Python's `t` packs with what comes from standard input; `add` adds to it.
packed() {
  cat >pack.py
  python3 - <<'END'
import io, json, os, tarfile
def file(t, name, data=b'', **more):
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), 0o644
    for key, value in more.items():
        setattr(info, key, value)
    t.addfile(info, io.BytesIO(data))
layer = io.BytesIO()
with tarfile.open(fileobj=layer, mode='w', format=tarfile.PAX_FORMAT) as t:
    exec(open('pack.py').read())
config = {'architecture': 'amd64', 'os': 'linux', 'config': {}, 'rootfs': {'type': 'layers', 'diff_ids': []}}
with tarfile.open('image.tar', 'w') as t:
    file(t, 'manifest.json', json.dumps([{'Config': 'c.json', 'Layers': ['layer.tar']}]).encode())
    file(t, 'c.json', json.dumps(config).encode())
    file(t, 'layer.tar', layer.getvalue())
END
}
# Marks of the overlay file system from outside: a name that stands for another of the host's, and rights of files.
a_layer_with_marks_of_the_overlay() {
  packed <<'END'
mark = lambda **all: {'SCHILY.xattr.' + k.replace('__', '.'): v for k, v in all.items()}
for kind in ('trusted', 'user'):
    over = {f'SCHILY.xattr.{kind}.overlay.redirect': '/etc', f'SCHILY.xattr.{kind}.overlay.opaque': 'y',
            f'SCHILY.xattr.{kind}.overlay.metacopy': ''}
    file(t, f'd{kind}', type=tarfile.DIRTYPE, mode=0o755, pax_headers=over)
    file(t, f'passwd{kind}', b'x', pax_headers={**over, f'SCHILY.xattr.{kind}.overlay.redirect': '/etc/shadow'})
rights = '\x01\0\0\x02\0\0 ' + '\0' * 13
file(t, 'id', open('/usr/bin/id', 'rb').read(), mode=0o6755,
     pax_headers={'SCHILY.xattr.security.capability': rights})
for name in ('lib', 'lib64', 'bin', 'usr'):
    if os.path.islink('/' + name):
        file(t, name, type=tarfile.SYMTYPE, linkname=os.readlink('/' + name))
libraries = '/lib/x86_64-linux-gnu/'
for path in ('/usr/bin/dash', '/usr/bin/cat', '/usr/bin/ls', '/lib64/ld-linux-x86-64.so.2', libraries + 'libc.so.6',
             libraries + 'libselinux.so.1', libraries + 'libpcre2-8.so.0'):
    at = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    file(t, at[1:], open(path, 'rb').read(), mode=0o755)
END
  experiment 'cat /dtrusted/shadow /duser/shadow /passwdtrusted /passwduser; ls /d*; echo ALL' 'root: ../image.tar'
  sed -i 's/\[sh, -c/[\/usr\/bin\/dash, -c/' lab/experiment.yaml
  run; cat out/nodes/a/stdout.log
  grep -q ALL out/nodes/a/stdout.log && ! grep -q 'root:\|^passwd$' out/nodes/a/stdout.log &&
    ! setpriv --reuid 65534 --clear-groups ls /var/lib/diorama/*/nodes
}
# Lengths that are none, and entries that end before their end.
a_layer_of_lengths_that_are_none() {
  local length code
  for length in -1 18446744073709551615 9223372036854775807 99999999999999999999 1e9 ''; do
    LENGTH=$length packed <<'END'
file(t, 'a', b'x', pax_headers={'size': __import__('os').environ['LENGTH']})
file(t, 'b', b'y', type=b'S', pax_headers={'GNU.sparse.major': '1', 'GNU.sparse.realsize': '9223372036854775807'})
END
    code=0
    experiment true 'root: ../image.tar'
    OUT=out$length run >said 2>&1 || code=$?
    cat -v said; sound $code && [ $code != 124 ] || return 1
  done
}
# layout: the directory `layout` of an index with this one manifest.
layout() {
  rm -rf layout && mkdir -p layout/blobs/sha256
  echo '{"imageLayoutVersion":"1.0.0"}' >layout/oci-layout
  echo "{\"schemaVersion\":2,\"manifests\":[{\"mediaType\":\"$1\",\"digest\":\"$2\",\"size\":10}]}" >layout/index.json
  experiment true 'root: ../layout.tar'
  tar -C layout -cf layout.tar .
}
a_digest_that_leads_out() {
  local kind
  for kind in index.v1 manifest.v1; do
    layout "application/vnd.oci.image.$kind+json" 'sha256:../../../../../../../../etc/shadow'
    OUT=out$kind run >said 2>&1
    cat -v said; ! grep -q 'root:[$!*]' said && grep -q 'lacks\|cannot be read\|digest' said || return 1
  done
}
an_index_that_points_to_itself() {
  layout application/vnd.oci.image.index.v1+json "sha256:$(printf '0%.0s' $(seq 64))"
  cp layout/index.json "layout/blobs/sha256/$(printf '0%.0s' $(seq 64))"
  tar -C layout -cf layout.tar .
  refused 'point to one another' "$diorama" run lab --wait --variant baseline --out out
}

# State that is as long as the disk, and runs that are none.
a_speed_without_an_end() {
  local at=/var/lib/diorama/speed.json code=0
  [ ! -e "$at" ] || mv "$at" kept
  mkdir -p /var/lib/diorama && truncate -s 8G "$at"
  experiment true
  sed -i 's/tdf: 1/tdf: 2/' lab/experiment.yaml
  /usr/bin/time -o kib -f %M timeout 280 "$diorama" run lab --wait --out out || code=1
  cat kib; [ "$(tail -n 1 kib)" -lt 400000 ] || code=1
  rm -f "$at" "$at".damaged*
  [ ! -e kept ] || mv kept "$at"
  return $code
}
runs_that_are_none() {
  local at=/run/diorama/abc-123 code=0
  mkdir -p "$at" && head -c 4000 /dev/urandom >"$at/run.json" && mkfifo "$at/control.sock"
  for verb in ps 'logs abc-123' 'exec abc-123 a -- true' 'event abc-123 x' 'swap out abc-123' \
    'image save abc-123 a y'; do
    # shellcheck disable=SC2086
    timeout 20 "$diorama" $verb >said 2>&1 </dev/null
    sound $? && ! grep -q panicked said || code=1
  done
  exec 3>"$at/lock"; flock 3
  timeout 20 "$diorama" ps >said 2>&1; sound $? || code=1
  exec 3>&-
  "$diorama" ps; [ ! -e "$at" ] || { rm -rf "$at"; code=1; }
  return $code
}
a_suspended_run_that_is_changed() {
  experiment 'sleep 1000'
  sed -i 's/tdf: 1/tdf: 2/; s/limit: 60s/limit: 300s/; s/exited: .a., //' lab/experiment.yaml
  timeout 300 "$diorama" run lab --wait --out out >running 2>&1 &
  until_there
  "$diorama" swap out out || return 1
  wait $!
  local id at n code=0
  id=$("$diorama" swap list | grep -o '^[0-9a-f]*-[0-9a-f]*' | tail -n 1)
  at=/var/lib/diorama/swapped/$id
  cp "$at/aside.json" aside.json
  for n in $(seq 12); do
    python3 - "$n" "$at/aside.json" <<'END'
import random, sys
random.seed(int(sys.argv[1]))
text = bytearray(open('aside.json', 'rb').read())
if sys.argv[1] == '1':
    text = text.replace(b'"a"', b'"../../../../etc"')
else:
    for _ in range(random.choice([1, 3, 10])):
        text[random.randrange(len(text))] = random.choice(b'0123456789-"{}[],:.ae')
open(sys.argv[2], 'wb').write(text)
END
    timeout 60 "$diorama" swap list >said 2>&1; sound $? && ! grep -q panicked said || code=1
    [ -e "$at/aside.json" ] || mv "$at".damaged* "$at"
  done
  sed 's#"a"#"../../../../etc"#g' aside.json >"$at/aside.json"
  timeout 60 "$diorama" swap in "$id" --out again >said 2>&1; sound $? || code=1
  cat -v said
  "$diorama" swap remove "$id" || "$diorama" swap remove "$id.damaged" || rm -rf "$at"
  return $code
}

# Scripts that wait for ever, call themselves, or make more than there can be.
scripts_without_an_end() {
  local text
  for text in 'vwait forever' 'proc a {} { a }; interp recursionlimit {} 100000000; a' 'after 100000000' \
    'set ns [new Simulator]; for {set i 0} {$i < 10000000} {incr i} { $ns node }' \
    'interp create b; b eval {while 1 {}}' 'trace add variable x write {set y 1; list}; while 1 {set x 1}' \
    'set ns [new Simulator]; set a [$ns node]; set b [$ns node]; while 1 { $ns duplex-link $a $b 1Mb 1ms DropTail }'; do
    echo "$text" >a.ns
    refused . "$diorama" check a.ns || { echo "$text"; return 1; }
  done
}
# Texts that are none.
texts_that_are_none() {
  local code
  printf '\377\376n\0a\0m\0e\0' >1.yaml; head -c 70000 /dev/urandom >2.yaml; head -c 3000000 /dev/zero >3.yaml
  { head -c 3000000 /dev/zero | tr '\0' '#'; echo; } >4.yaml
  { head -c 3000000 /dev/zero | tr '\0' 'k'; echo ': 1'; } >5.yaml
  yes '- ' | head -c 3000000 | tr -d '\n' >6.yaml; yes '? ' | head -c 1000000 | tr -d '\n' >7.yaml
  yes '!!python/object/apply:os.system ["touch /tmp/attack-was-here"]' | head -n 3000 >8.yaml
  yes '&a *a' | head -n 10000 >9.yaml
  for n in 1 2 3 4 5 6 7 8 9; do refused . "$diorama" check $n.yaml || { echo $n; return 1; }; done
  [ ! -e /tmp/attack-was-here ]
}
# Settings without an end.
settings_without_an_end() {
  local name
  truncate -s 20G long.env; mkdir directory.env; ln -s /dev/zero device.env
  for name in long directory device; do
    echo "services: { a: { image: x, env_file: $name.env } }" >compose.yaml
    refused . "$diorama" convert compose.yaml || return 1
  done
}
# As many places as there are things to put there, and none of them is right.
a_mapping_that_takes_long() {
  python3 - <<'END'
with open('a.top', 'w') as top, open('a.ptop', 'w') as ptop:
    for n in range(1500):
        top.write(f'node v{n} pc:1\n')
        ptop.write(f'node p{n} pc:1\n')
    for n in range(1499):
        top.write(f'link l{n} v{n} v{n + 1} 1000 0 0 ethernet\n')
        ptop.write(f'link k{n} p{n} p{(n * 7) % 1500} 1000 0 0 1 ethernet\n')
END
  # There is nothing to be removed, so the signal itself may end it.
  timeout --preserve-status -s TERM -k 5 6 "$diorama" map a.top --machines a.ptop >said 2>&1
  local code=$?
  echo "exit code $code"; [ $code != 137 ] && sound $code
}
for one in a_page_in_a_folder_of_everybody an_experiment_among_everybodys a_record_that_a_terminal_would_obey \
  a_file_of_a_terabyte a_root_that_is_a_maze nobody_who_listens no_descriptors few_descriptors small_files \
  signals_of_all_kinds stopped_and_killed its_first_process_is_killed results_that_are_taken_away events_that_are_none \
  an_image_of_a_node_that_moves an_image_of_what_has_no_end a_layer_with_marks_of_the_overlay \
  a_layer_of_lengths_that_are_none a_digest_that_leads_out an_index_that_points_to_itself a_speed_without_an_end \
  runs_that_are_none a_suspended_run_that_is_changed scripts_without_an_end texts_that_are_none \
  settings_without_an_end \
  a_mapping_that_takes_long; do
  attack "$one"
done
