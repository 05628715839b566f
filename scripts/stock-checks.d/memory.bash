# What becomes of memory that nobody uses, and what runs set on the machine for that: sourced by scripts/stock-checks.
# shellcheck shell=bash

readonly reclaim=/sys/module/damon_reclaim/parameters
has_reclaim() { [ -w $reclaim/min_age ]; }

# idle_age IS: after so many microseconds it is paged out.
idle_age() {
  local is
  is=$(cat $reclaim/min_age)
  [ "$is" = "$1" ] || { echo "$is us, not $1"; return 1; }
}

# The module that pages it out, switched on as an administrator would: later in a dilated run, and as before after it,
# also if that was killed; of a baseline run nothing is to be seen.
idle_memory() {
  local before code=0
  before=$(cat $reclaim/min_age)
  echo Y >$reclaim/enabled || return
  later "$before" || code=$?
  echo N >$reclaim/enabled
  return "$code"
}
# later AGE: in place of this one.
later() {
  diorama doctor | grep '^ok .*idle memory' || return
  engine idle-baseline --variant baseline
  comes_to idle-baseline event zero && idle_age "$1" && ended idle-baseline 0 || return
  engine idle
  comes_to idle event zero && idle_age $((10 * $1)) || return
  grep '"idle_memory":.*"min_age"' "$scratch/runs/idle/events.jsonl" || return
  kill -KILL "$begun"
  ended idle 137 && idle_age $((10 * $1)) || return
  comes nothing_new there_is_still || { cat "$scratch/left"; return 1; }
  begin restored "$diorama" check stock
  ended restored 0 || return
  says "min_age was still" restored && idle_age "$1" && left_nothing
}
