# Nodes with disks, over each transport: sourced by scripts/stock-checks.
# shellcheck shell=bash

# A node writes and syncs a piece of a file, says so, and goes on where it was after a power cut.
mkdir "$scratch/disks"
cat >"$scratch/disks/experiment.yaml" <<'END'
name: disks
tdf: 10
lead: 2.5ms
machines:
  m: { speed: 0.4, memory: 128MiB, disk: { like: ssd-sata, size: 512MB } }
nodes:
  db:
    machine: m
    run: [perl, -MIO::Handle, -e, '$| = 1; open F, ">>", "/out/w" or die; $n = int((-s F) / 4096); print "found=$n\n";
      while ($n < 3000) { print F "x" x 4096; F->flush && F->sync or exit 1; print "synced=$n\n"; $n++ }']
events:
  - { at: 4s, node: db, do: power-off }
  - { at: 5s, node: db, do: power-on }
# Long enough for an emulated machine to have come so far by then.
ends: { limit: 10s }
END

has_ublk() { [ -e /dev/ublk-control ] || modprobe -q -n ublk_drv; }

# with_disk NAME [COMMAND…]: a run in the background, started by COMMAND.
with_disk() { begin "$1" "${@:2}" "$diorama" run disks --variant scaled --out "$scratch/runs/$1"; }

# A check of a run for which no ublk device can be made.
without_ublk() {
  modprobe -q ublk_drv
  : >"$scratch/nothing"
  # shellcheck disable=SC2016
  "$@" unshare -m sh -c '[ ! -e /dev/ublk-control ] || mount --bind "$1" /dev/ublk-control; shift; exec "$@"' sh \
    "$scratch/nothing"
}

over() { # over TRANSPORT NAME: what the run's record says
  local zero=$scratch/runs/$2/events.jsonl
  grep '"event":"zero"' "$zero" | grep -o '"disks":{[^}]*}'
  grep '"event":"zero"' "$zero" | grep -q "\"over\":\"$1\""
}

# Every piece of which the node has said that it is synced is there after the power was cut.
lost_nothing() {
  local log=$scratch/runs/$1/nodes/db/stdout.log
  perl -e 'my ($last, $found) = (-1, 0);
    while (<>) {
      $last = $1 if /^synced=(\d+)/;
      if (/^found=(\d+)/) { $found++; print "$1 found after $last\n"; die "some are lost" if $1 <= $last }
    }
    die "it began $found times, and wrote up to $last" if $found != 2 || $last < 2' "$log"
}

disk() { # disk TRANSPORT NAME [COMMAND…]
  with_disk "${@:2}"
  ended "$2" 0 || return
  over "$1" "$2" && lost_nothing "$2" && left_nothing
}

nobody_waits() { ! grep -ls '^State:.*D' /proc/[0-9]*/status; }

disk_server_killed() { # disk_server_killed NAME [COMMAND…]
  local server
  with_disk "$@"
  comes_to "$1" event start || return
  sleep 5
  server=$(grep -lsz '__disk[s]' /proc/[0-9]*/cmdline | cut -d/ -f3 | head -n 1)
  [ -n "$server" ] || { echo "nobody serves disks"; return 1; }
  kill -KILL "$server"
  ended "$1" 1 || return
  cat "$scratch/$1.said"
  says 'the disks of db was killed by signal 9' "$1" && comes nobody_waits && left_nothing
}

disk_engine_killed() { # disk_engine_killed NAME [COMMAND…]
  with_disk "$@"
  comes_to "$1" event start || return
  sleep 5
  kill -KILL "$begun"
  ended "$1" 137 || return
  comes nobody_waits && goes_with_next
}
