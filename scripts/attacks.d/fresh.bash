# Attacks by a fresh reader: tried against the code as it was, none of them from a list that it was written against.

# Whoever writes an experiment writes on the terminal of who looks at it.
an_experiment_that_a_terminal_would_obey() {
  printf 'name: x\n\033]0;owned\007bad: 1\ntdf: "\033[2J"\n' >a.yaml
  "$diorama" check a.yaml >said 2>&1
  cat -v said; ! grep -q $'\033' said
}
# What a Compose file says is written down as an experiment.
a_conversion_that_a_terminal_would_obey() {
  printf 'services: { a: { image: x, command: ["\\e]0;owned", "\\u009b2J", "\\u202e"] } }\n' >compose.yaml
  "$diorama" convert compose.yaml >said 2>&1 || return 1
  cat -v said; grep -q 'u009b2J' said && ! grep -q $'\033\|\302\233\|\342\200\256' said
}
# A character of control that is no single byte.
what_a_terminal_would_obey_in_utf_8() {
  experiment 'printf "\302\233[2Jx\n" >&2; exit 3'
  run >said 2>&1; "$diorama" logs out a 2>&1 | cat >>said
  cat -v said; ! head -n 5 said | grep -aq $'\302\233'
}
# Of what somebody prints, a page for browsers is made.
a_page_that_a_browser_would_obey() {
  experiment 'echo "<script>alert(1)</script>" >&2; exit 3'
  run; [ -s out/report.html ] && ! grep -q '<script>alert' out/report.html
}
a_limit_that_overflows() {
  experiment true
  sed -i 's/limit: 60s/limit: 99999999999999999999h/' lab/experiment.yaml
  refused . "$diorama" check lab
}
# A mapping that is merged into itself.
services_that_hold_themselves() {
  printf 'services:\n  a: &a\n    <<: *a\n    image: x\n' >compose.yaml
  refused . "$diorama" convert compose.yaml
}
# Each of the ways in which a Compose file names files.
files_of_the_host_in_a_compose_file() {
  cat >compose.yaml <<'END'
services:
  a: { image: x, configs: [c], volumes: ["/etc/shadow:/x"], extends: { file: ../../../../etc/shadow, service: a } }
configs: { c: { file: /etc/shadow } }
END
  "$diorama" convert compose.yaml >said 2>&1
  cat said; ! grep -q 'root:' said
}
# Opening it would wait for ever.
settings_that_are_a_pipe() {
  mkfifo e.env && echo 'services: { a: { image: x, env_file: e.env } }' >compose.yaml
  refused . "$diorama" convert compose.yaml
}
# Patterns that take longer with each letter, where no signal is looked at.
a_script_with_patterns() {
  echo 'regexp {^(a+)+$} [string repeat a 40000]b; regexp {(((a*)*)*)*b} [string repeat a 5000]; while 1 {}' >a.ns
  refused . "$diorama" check a.ns
}
# All that Tcl has to reach what is not the script's.
a_script_that_looks_around() {
  cat >a.ns <<'END'
foreach try {{source /etc/shadow} {open |id} {socket localhost 22} {exec id} {load /lib/x.so} {glob /*}} {
  catch $try e; puts $e
}
foreach f {/proc/1/environ /proc/self/environ /proc/self/maps} { catch {set h [open $f]; puts [read $h]} e; puts $e }
END
  HOST_SECRET=TOP-SECRET "$diorama" check a.ns >said 2>&1
  head -c 2000 said; ! grep -aq 'TOP-SECRET\|root:\|uid=' said
}
# A layer removes the directory above itself.
a_layer_that_removes_what_is_above() {
  mkdir keep
  image '0 a/b 5' '0 a/.wh...' '0 a/.wh..' '0 .wh...' '0 .wh..wh..opq'
  experiment true 'root: ../image.tar'
  run; [ -d keep ] && [ -d lab ]
}
# A layer has devices, and names of the host's files.
a_layer_with_links_and_devices() {
  local before
  before=$(md5sum /etc/shadow)
  image '3 dev0 0' '4 dev1 0' '6 fifo 0' '1 hard /etc/shadow' '2 l /etc/shadow' '0 l 7'
  experiment true 'root: ../image.tar'
  run; [ "$before" = "$(md5sum /etc/shadow)" ]
}
# Frames of any kind, with what a network card would be told of them.
frames_of_any_kind() {
  command -v python3 >/dev/null || return 0
  mkdir -p lab
  cat >lab/frames.py <<'END'
import os, random, socket, struct
random.seed(1)
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0x0300)
s.bind(('eth0', 0))
s.setsockopt(263, 15, 1)  # PACKET_VNET_HDR
kinds = [b'\x08\x00', b'\x86\xdd', b'\x81\x00', b'\x08\x06', b'\x88\xcc', b'\xff\xff']
for n in range(5000):
    length = random.choice([14, 15, 20, 34, 40, 60, 200, 1514, 1518, 9000, 40000])
    first = bytes([random.choice([0x45, 0x46, 0x4f, 0x60, 0x00])])
    frame = b'\xff' * 6 + os.urandom(6) + random.choice(kinds) + first + os.urandom(length)
    sizes = [random.choice(c) for c in ([0, 34, 54, 65535], [0, 1, 536, 65535], [0, 34, 14], [0, 6, 16])]
    try:
        s.send(struct.pack('<BBHHHH', random.choice([0, 1]), random.choice([0, 1, 3, 4, 0x81]), *sizes) + frame)
    except OSError:
        pass
print('SENT')
END
  cat >lab/experiment.yaml <<'END'
name: attack
tdf: 2
machines: { m: { speed: 0.2, memory: 128MiB } }
nodes:
  a: { machine: m, run: [python3, /frames.py], files: { /frames.py: frames.py } }
  b: { machine: m, run: [sleep, "600"] }
links: [ { from: a, to: b, bandwidth: 1Gbit/s, delay: 1ms, corrupt: 1% } ]
ends: { exited: [a], limit: 100s }
END
  timeout -k 5 280 "$diorama" run lab --wait --out out && grep -q SENT out/nodes/a/stdout.log
}
# The node's interface is another, and gone.
an_interface_that_is_taken_away() {
  mkdir -p lab
  cat >lab/experiment.yaml <<'END'
name: attack
tdf: 2
machines: { m: { speed: 0.2, memory: 256MiB } }
nodes:
  a:
    machine: m
    run:
      - sh
      - -c
      - "ip link set eth0 mtu 65000; ip link set eth0 down; ip link set eth0 name zz; ip link del zz; echo DONE"
  b: { machine: m, run: [sh, -c, "for i in 1 2 3 4; do ping -c 1 -W 1 a; done; true"] }
links: [ { from: a, to: b, bandwidth: 1Gbit/s, delay: 1ms } ]
ends: { limit: 10s }
END
  timeout -k 5 280 "$diorama" run lab --wait --out out; grep -q DONE out/nodes/a/stdout.log && [ -s out/result.json ]
}
# What the harness has open, and what it was told.
what_is_left_open() {
  experiment 'ls -l /proc/1/fd /proc/self/fd; tr "\0" "\n" </proc/1/environ; env; echo ALL'
  HOST_SECRET=TOP-SECRET run
  cat out/nodes/a/stdout.log
  grep -q ALL out/nodes/a/stdout.log && ! grep -aq 'TOP-SECRET\|var/lib' out/nodes/a/stdout.log
}
# A file of a terabyte that takes no room.
rows_of_nothing() {
  experiment 'truncate -s 1T /out/log; sleep 1'
  echo 'metrics: { x: { nodes: a, rows: /out/log, value: 1, unit: us } }' >>lab/experiment.yaml
  timeout 100 "$diorama" run lab --wait --variant baseline --out out; grep -q 'longer than 64 KiB' out/result.json
}
# Rows change their place while they are read, for a file of the host's.
rows_that_are_exchanged() {
  experiment 'while :; do ln -sfn /etc/shadow /out/x; mv -T /out/x /out/log; echo 1 >/out/y; mv /out/y /out/log; done'
  sed -i 's/limit: 60s/limit: 4s/' lab/experiment.yaml
  echo 'metrics: { x: { nodes: a, rows: /out/log, value: 1, unit: us } }' >>lab/experiment.yaml
  run; ! grep -rq 'root:[$!*]' out
}
names_that_lead_elsewhere() {
  local name code=0
  experiment true
  run >/dev/null
  for name in ../../etc a/b .part-x -x x.damaged/../y ..damaged .damaged; do
    ! "$diorama" image remove -- "$name" || code=1
    ! "$diorama" swap remove -- "$name" || code=1
  done
  ! "$diorama" logs out ../../../etc/passwd || code=1
  return $code
}
# A record names a file of samples that is not its own.
a_record_that_leads_out() {
  experiment true
  run >/dev/null && mv out/result.json kept || return
  local samples='"x": {"unit":"ms","n":1,"mean":1,"p50":1,"p90":1,"p99":1,"file":"../../etc/shadow"}'
  sed "s#\"metrics\": {#&$samples#" kept >out/result.json
  "$diorama" compare out out >said 2>&1
  cat said; ! grep -q 'root:' said
}
# More directories in one another than a path has letters.
directories_without_an_end() {
  experiment 'cd /out; perl -e "for (1..20000) { mkdir q(d) and chdir q(d) or last }"; echo DONE'
  run; "$diorama" ps; grep -q DONE out/nodes/a/stdout.log
}
# A program after the other, each of which the harness has to look at.
a_flood_of_programs() {
  experiment 'end=$(($(date +%s) + 4)); while [ "$(date +%s)" -lt $end ]; do /bin/true; done; echo DONE'
  sed -i 's/tdf: 1/tdf: 2/' lab/experiment.yaml
  timeout -k 5 280 "$diorama" run lab --wait --out out; grep -q DONE out/nodes/a/stdout.log
}

# By sudo: each file that a verb reads or writes, in a folder of the caller's, is a link to one of root's.
as_caller() { SUDO_UID=65534 SUDO_GID=65534 timeout 100 "$diorama" "$@" >said 2>&1; cat said; }
theirs() {
  mkdir -p theirs && printf 'TOP-SECRET: 1\n' >secret && chmod 600 secret
  ln -f secret "theirs/$1" && chown 65534 theirs
}
a_catalog_that_is_roots() {
  theirs c.yaml && experiment true
  as_caller map lab --machines theirs/c.yaml; ! grep -q TOP-SECRET said
}
a_compose_file_that_is_roots() {
  theirs compose.yaml
  as_caller convert theirs/compose.yaml; ! grep -q TOP-SECRET said
}
settings_that_are_roots() {
  theirs .env && echo 'services: { a: { image: "$TOP" } }' >theirs/compose.yaml
  as_caller convert theirs/compose.yaml; ! grep -q TOP-SECRET said
}
an_archive_that_is_roots() {
  image '0 a 5' && theirs image.tar && mv image.tar secret && chmod 600 secret && ln -f secret theirs/image.tar
  experiment true 'root: ../theirs/image.tar'
  as_caller run lab --wait --variant baseline --out out; grep -qi denied said
}
a_queue_that_leads_to_roots_directories() {
  mkdir theirs && ln -s /var/lib/diorama/attack-made theirs/q.jobs && chown -R -h 65534 theirs
  as_caller batch list --queue theirs/q; [ ! -e /var/lib/diorama/attack-made ]
}
# Without sudo, too: root writes a page where another user has put a link.
a_page_behind_a_link_of_others() {
  experiment 'echo v=1'
  echo 'metrics: { x: { nodes: a, line: "v=(.)", from: stdout, combine: sum, unit: us } }' >>lab/experiment.yaml
  run >/dev/null; echo keep >victim
  mkdir theirs && ln -s "$PWD/victim" theirs/page.html && chown -R -h 65534 theirs
  "$diorama" compare out out --html own.html && [ -s own.html ] || return 1
  "$diorama" compare out out --html theirs/page.html; [ "$(cat victim)" = keep ]
}

# Damaged state is told, set apart and removed.
a_suspended_run_that_is_damaged() {
  local at=/var/lib/diorama/swapped/1a2b-3c4d5e code=0
  mkdir -p "$at/nodes/a/upper" && echo '{"id":' >"$at/aside.json"
  "$diorama" swap list | tee said; grep -q '1a2b-3c4d5e.damaged  damaged' said || code=1
  ! "$diorama" swap in 1a2b-3c4d5e || code=1
  "$diorama" swap remove 1a2b-3c4d5e && [ ! -e "$at.damaged" ] || { rm -rf "$at" "$at.damaged"; code=1; }
  return $code
}
# damaged_file NAME VERB…: what the verb says, and what becomes of the file.
damaged_file() {
  local at=/var/lib/diorama/$1 apart code=0
  shift
  [ ! -e "$at" ] || cp "$at" kept
  mkdir -p /var/lib/diorama && head -c 9000 /dev/urandom >"$at"
  "$@"
  apart=$("$diorama" swap list | grep -o "^$(basename "$at").damaged[0-9]*" | tail -n 1)
  [ -n "$apart" ] && "$diorama" swap remove "$apart" || code=1
  if [ -e kept ]; then cp kept "$at"; else rm -f "$at"; fi
  return $code
}
the_queue_that_is_damaged() { damaged_file queue.db "$diorama" batch list; }
the_speed_that_is_damaged() {
  experiment true
  sed -i 's/tdf: 1/tdf: 2/' lab/experiment.yaml
  damaged_file speed.json timeout 280 "$diorama" run lab --wait --out out
}
for one in an_experiment_that_a_terminal_would_obey a_conversion_that_a_terminal_would_obey \
  what_a_terminal_would_obey_in_utf_8 \
  a_page_that_a_browser_would_obey a_limit_that_overflows services_that_hold_themselves \
  files_of_the_host_in_a_compose_file settings_that_are_a_pipe a_script_with_patterns a_script_that_looks_around \
  a_layer_that_removes_what_is_above a_layer_with_links_and_devices frames_of_any_kind \
  an_interface_that_is_taken_away what_is_left_open rows_of_nothing rows_that_are_exchanged \
  names_that_lead_elsewhere a_record_that_leads_out directories_without_an_end a_flood_of_programs \
  a_catalog_that_is_roots a_compose_file_that_is_roots settings_that_are_roots an_archive_that_is_roots \
  a_queue_that_leads_to_roots_directories a_page_behind_a_link_of_others a_suspended_run_that_is_damaged \
  the_queue_that_is_damaged the_speed_that_is_damaged; do
  attack "$one"
done
