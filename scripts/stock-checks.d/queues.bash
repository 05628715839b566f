# What queues that nodes give their interfaces by tc do there, beside what they do natively: sourced by
# scripts/stock-checks. Delays, rates, and when codel begins to drop, and how much.
# shellcheck shell=bash

# Natively: two network namespaces, joined by a pair of interfaces.
queues_natively() {
  local out=$scratch/queues/native far code=0
  [ ! -e "$out/done" ] || return 0
  mkdir -p "$out"
  unshare -n sleep 1000 &
  far=$!
  while [ "$(readlink "/proc/$far/ns/net")" = "$(readlink /proc/self/ns/net)" ]; do sleep 0.1; done
  # shellcheck disable=SC2016
  unshare -n bash -ec 'there() { nsenter -n -t "$1" "${@:2}"; }
    ip link set lo up
    ip link add eth0 type veth peer name eth0 netns "$1"
    ip address add 10.77.0.1/24 dev eth0
    there "$1" ip address add 10.77.0.2/24 dev eth0
    there "$1" ip link set eth0 up
    ip link set eth0 up
    nsenter -n -t "$1" python3 scripts/stock-checks.d/queues.py receive >"$2/received" &
    trap "kill $!" EXIT
    sleep 2
    python3 scripts/stock-checks.d/queues.py send 10.77.0.2 >"$2/sent"' - "$far" "$out" || code=$?
  kill "$far"
  wait "$far" || true
  [ "$code" != 0 ] || touch "$out/done"
  return "$code"
}

# In nodes, at a TDF: one computes before it sends, and so is ahead of the run.
queues_in_nodes() { # queues_in_nodes TDF
  local of=$scratch/queues$1 run=$scratch/runs/queues$1
  queues_natively || return
  mkdir -p "$of" "$scratch/queues/$1"
  cp scripts/stock-checks.d/queues.py "$of"
  cat >"$of/experiment.yaml" <<YAML
name: queues
tdf: $1
lead: $([ "$1" = 1 ] && echo 7 || echo 1.5)ms
machines: { m: { speed: $([ "$1" = 1 ] && echo 0.4 || echo 2), memory: 128MiB } }
nodes:
  b: { machine: m, run: python3 /queues.py receive, files: { /queues.py: queues.py } }
  a: { machine: m, run: python3 /queues.py send b, files: { /queues.py: queues.py } }
links: [{ from: a, to: b, bandwidth: 100Mbit/s, delay: 10ms }]
ends: { exited: [a], limit: 300s }
YAML
  (cd "$scratch" && diorama run "queues$1" --out "$run") || return
  cp "$run/nodes/a/stdout.log" "$scratch/queues/$1/sent"
  cp "$run/nodes/b/stdout.log" "$scratch/queues/$1/received"
  local code=0
  python3 scripts/stock-checks.d/queues.py judge "$scratch/queues/native" "$scratch/queues/$1" >"$of/judged" || code=$?
  cat "$of/judged"
  # pie is in it, and what of it is not in virtual time has been told.
  [ "$1" = 1 ] || names_what_is_left "$run" || code=1
  return "$code"
}

names_what_is_left() { # names_what_is_left RUN: by the check `kernel-settings`, of node a, and of no other queue
  perl -MJSON::PP -e 'local $/; open my $f, "<", $ARGV[0] or die $!;
    my ($check) = grep { $_->{name} eq "kernel-settings" } @{decode_json(<$f>)->{fidelity}{checks}};
    print "$check->{says}\n"; exit !($check->{says} =~ /^a set tc pie \([^;]*$/)' "$1/result.json"
}
