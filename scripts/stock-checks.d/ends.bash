# Runs that end otherwise than they should: sourced by scripts/stock-checks.
# shellcheck shell=bash

# begin NAME COMMAND…: starts the command in the background, as process $begun. What it says is in $scratch/NAME.said.
begin() {
  local name=$1
  shift
  rm -rf "$scratch/runs/$name"
  (cd "$scratch" && exec "$@") >"$scratch/$name.said" 2>&1 </dev/null &
  begun=$!
}
engine() { # engine NAME ARG…: as a command for `begin`, a run whose results are in $scratch/runs/NAME
  begin "$1" "$diorama" run stock --out "$scratch/runs/$1" "${@:2}"
}

# What comes sooner or later is waited for, long enough for slow machines.
comes() { # comes CONDITION…
  local limit=$((SECONDS + patience))
  until "$@"; do
    ((SECONDS < limit)) || { echo "for $patience s it is not so that $*"; return 1; }
    sleep 0.1
  done
}
# comes_to NAME CONDITION…: waits for it while what has begun lives; if it has ended before, the moment was missed.
comes_to() {
  local name=$1 limit=$((SECONDS + patience))
  shift
  until "$@" "$name"; do
    if ! kill -0 "$begun" 2>/dev/null || ((SECONDS >= limit)); then
      echo "it did not come to the moment at which $*:"
      cat "$scratch/$name.said"
      return 1
    fi
    sleep 0.05
  done
}
# ended NAME CODE: waits for the end of what has begun, which is to have this exit code.
ended() {
  local limit=$((SECONDS + patience)) code=0
  while kill -0 "$begun" 2>/dev/null; do
    if ((SECONDS >= limit)); then
      echo "it did not end within $patience s"
      kill -KILL "$begun"
    fi
    sleep 0.2
  done
  wait "$begun" || code=$?
  [ "$code" = "$2" ] || { echo "it ended with $code in place of $2:"; cat "$scratch/$1.said"; return 1; }
}

# ---- moments of a run, the last word being its name ----

says() { grep -qF -- "$1" "$scratch/$2.said"; }
event() { grep -qs "\"event\":\"$1\"" "$scratch/runs/$2/events.jsonl"; }
has_result() { [ -s "$scratch/runs/$1/result.json" ]; }
creates_nodes() { says 'creating 2 containers' "$1" && [ -n "$(find /var/lib/diorama -mindepth 2 -name 'server*')" ]; }
# The keeper comes in its middle, where there are any.
applies_limits() {
  says 'applying shares' "$1" || return
  grep -q '^ok.*always-runnable' "$scratch/table" || return 0
  grep -qsz '__keepe[r]' /proc/[0-9]*/cmdline
}
starts_nodes() { event start "$1"; }
# Both nodes run, and the client has begun.
works() { event ready "$1" && [ "$(grep -c '"event":"start"' "$scratch/runs/$1/events.jsonl")" = 2 ]; }
collects() { says 'collecting the results' "$1"; }

# ---- the engine is killed ----

# Whatever the kernel can take away goes with it, and all else with the next command.
goes_with_next() {
  comes nothing_new there_is_still || { cat "$scratch/left"; return 1; }
  (cd "$scratch" && "$diorama" check stock) || return
  left_nothing
}

# killed CONDITION: at that moment.
killed() {
  local held='' attempt
  [ -s "$scratch/table" ] || table || return
  # Short moments are missed now and then: a run that has ended by itself by then was not killed.
  for attempt in 1 2 3; do
    engine killed --variant scaled
    comes_to killed "$1" || return
    # So that it is its middle.
    [ "$1" != works ] || sleep 3
    held=$(partitions)
    ! kill -KILL "$begun" || break
    ended killed 0 && left_nothing || return
    [ "$attempt" != 3 ] || { echo "the moment was missed three times"; return 1; }
  done
  ended killed 137 || return
  if [ "$1" = works ] && has_partitions && [ -z "$held" ]; then
    echo "its cores were not its own:"
    cat "$scratch/runs/killed/events.jsonl"
    return 1
  fi
  goes_with_next
}

# Whether runs have their cores for themselves here: docs/host.md says when.
has_partitions() {
  local major minor
  IFS=. read -r major minor _ <<<"$(uname -r)"
  has_second && [ "$(nproc)" -ge 4 ] && ((major * 1000 + minor >= 6007))
}

# The first of two runs is killed in its middle: while the second runs, where there are cores for both, or waits.
one_of_two() {
  local first
  engine first --variant scaled --node-cores 1
  first=$begun
  comes_to first works || return
  engine second --variant scaled --node-cores 1 --wait
  if [ "$(nproc)" -ge 4 ]; then comes_to second works; else comes_to second says waiting:; fi || return
  kill -KILL "$first"
  ended second 0 || return
  wait "$first"
  has_results second || return
  # It was this one's to remove, or is the next one's.
  (cd "$scratch" && "$diorama" check stock) || return
  left_nothing
}

# loses_cores NAME DEED: a run whose cores are its own no more after what DEED does in its middle, which is told the
# file of their partition. It goes on, and says so.
loses_cores() {
  local name=$1 file
  engine "$name" --variant scaled
  comes_to "$name" works || return
  file=$(partitions | sed -n '1s/:.*//p')
  [ -n "$file" ] || { echo "it has no cores of its own"; return 1; }
  "$2" "$file" || return
  ended "$name" 0 || return
  cat "$scratch/$name.said"
  has_results "$name" && event cores-lost "$name" && says 'open to other programs' "$name" && left_nothing
}
# Somebody takes them back.
partition_taken_back() { loses_cores taken take_back; }
take_back() { echo member >"$1"; }
# The kernel declares the partition invalid: there are no cores left that it could have for itself.
partition_invalid() { loses_cores invalid invalidate; }
invalidate() {
  echo >"${1%/*}/cpuset.cpus.exclusive" || return
  cat "$1"
  grep -q invalid "$1"
}

# Another group is to have the cores before it: they are shared from the beginning, and it says so.
partition_refused() {
  local other=$groups/stock-checks passed code=0
  passed=$(cat "$groups/cgroup.subtree_control")
  echo +cpuset >"$groups/cgroup.subtree_control" && mkdir "$other" || return
  echo "0-$(($(nproc) - 1))" >"$other/cpuset.cpus.exclusive" || code=1
  engine beaten --variant scaled
  ended beaten 0 && has_results beaten || code=1
  grep '"event":"zero"' "$scratch/runs/beaten/events.jsonl" | grep -F 'cpuset.cpus.exclusive' || code=1
  rmdir "$other" || code=1
  case " $passed " in *' cpuset '*) ;; *) echo -cpuset >"$groups/cgroup.subtree_control" ;; esac
  [ "$code" = 0 ] && left_nothing
}

# A core of the nodes is taken off line in its middle: it ends, and says what to do. (Core 0 never can be.)
core_off_line() {
  local online=/sys/devices/system/cpu/cpu1/online code=0
  begin offline taskset -c "1-$(($(nproc) - 1))" "$diorama" run stock --out "$scratch/runs/offline"
  comes_to offline works || return
  echo 0 >"$online" || return
  ended offline 3 || code=1
  echo 1 >"$online" || return
  cat "$scratch/offline.said"
  [ "$code" = 0 ] && says 'core 1' offline && says "echo 1 > $online" offline && has_result offline && left_nothing
}
