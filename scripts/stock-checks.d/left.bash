# What there is of a run, during it and afterwards: sourced by scripts/stock-checks.
# shellcheck shell=bash

readonly groups=/sys/fs/cgroup

# The groups that have cores for themselves, or had and were not given back.
partitions() { grep -rHsvx --include=cpuset.cpus.partition member "$groups"; }

# What there is on this machine that a run could leave behind.
there_is() {
  find "$groups" -type d -name '*diorama-*' -printf 'group %p\n'
  partitions | sed 's/^/partition /'
  grep -rHs --include=cpuset.cpus.exclusive . "$groups" | sed 's/^/cores that could be a partition: /'
  sed 's/^[0-9]* [0-9]* [^ ]* \([^ ]*\) \([^ ]*\) .*/mount \1 at \2/' /proc/self/mountinfo
  find /sys/class/net -mindepth 1 -printf 'interface %f\n'
  grep -Hs . /sys/block/*/loop/backing_file | sed 's/^/loop device /'
  find /sys/block -mindepth 1 -name 'ublkb*' -printf 'block device %f\n'
  find /sys/class/ublk-char -mindepth 1 -printf 'ublk device %f\n' 2>/dev/null
  find /sys/fs/fuse/connections -mindepth 1 -maxdepth 1 -printf 'FUSE connection %f\n' 2>/dev/null
  # But what is kept from run to run.
  find /run/diorama /var/lib/diorama -mindepth 1 -name cores -prune -o -mindepth 1 ! -name lock ! -name "*.json" \
    -printf 'file %p\n' 2>/dev/null
  # By their programs: what else starts meanwhile is the machine's. And those of nodes, whatever they are.
  find /proc/[0-9]*/exe -maxdepth 0 -printf '%h is a process of %l\n' 2>/dev/null | grep -E '/(diorama|crun|runc|perl)$'
  find /proc/[0-9]*/ns/pid -maxdepth 0 -printf '%h is in namespace %l\n' 2>/dev/null |
    grep -vF "$(readlink /proc/self/ns/pid)"
  if [ -d /run/systemd/system ]; then
    systemctl list-units --all --plain --no-legend 'diorama*' | sed 's/ .*//; s/^/unit /'
  fi
}

# What goes with the engine, also where that is killed: groups, files, and what is left of ublk devices stay, until the
# next command.
there_is_still() { there_is | grep -Ev '^(group|partition|cores|file|unit|ublk device) '; }

# Settings of the whole machine, by file: what the root passes on, the scheduler's, TCP's, the page cache's, and on
# which cores the first process may be. The scheduler's own notes and measurements are none. What the root of systemd
# passes on is systemd's own affair: what its units ask for, and for some time after the last of them.
settings() {
  [ -d /run/systemd/system ] || grep -Hs . "$groups/cgroup.subtree_control"
  grep -Hs . "$groups/cpuset.cpus.isolated"
  grep -Hs Cpus_allowed_list /proc/1/status
  grep -rHs . /proc/sys/kernel/sched* /proc/sys/net/core /proc/sys/net/ipv4/tcp* /proc/sys/vm/dirty*
  # Mounted where nobody else sees it.
  # shellcheck disable=SC2016
  unshare -m sh -c 'mountpoint -q "$1" || mount -t debugfs none "$1"
    grep -rHs --exclude=debug --exclude="*newidle*" . "$1/sched"' sh /sys/kernel/debug
}

# What there is now is what is there without any run.
remember() {
  there_is | LC_ALL=C sort >"$scratch/before"
  settings | LC_ALL=C sort >"$scratch/settings"
}

nothing_new() { # nothing_new WHAT: says what WHAT, such as there_is, tells beyond what there was
  "$1" | LC_ALL=C sort >"$scratch/after"
  LC_ALL=C comm -13 "$scratch/before" "$scratch/after" >"$scratch/left"
  [ ! -s "$scratch/left" ]
}

left_nothing() {
  nothing_new there_is || { cat "$scratch/left"; return 1; }
  settings | LC_ALL=C sort >"$scratch/after"
  [ "$(wc -l <"$scratch/after")" -gt 20 ] || { echo "settings cannot be read"; return 1; }
  diff "$scratch/settings" "$scratch/after"
}
