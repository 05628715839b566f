# How long turns are, and what runs set on the machine for that: sourced by scripts/stock-checks.
# shellcheck shell=bash

# Nodes that always want CPU, one four times as fast as the others; turns of 2 ms and more.
mkdir "$scratch/slices"
cat >"$scratch/slices/experiment.yaml" <<'END'
name: slices
tdf: 5
# The speed of emulated cores is no measure of anything: it changes by a half with what their host does.
cpu: time
lead: 19ms
machines:
  large: { speed: 0.4, memory: 64MiB }
  small: { speed: 0.1, memory: 64MiB }
nodes:
  large: { machine: large, run: [perl, -e, "1 while 1"] }
  small: { count: 3, machine: small, run: [perl, -e, "1 while 1"] }
ends: { limit: 6s }
END

# Whether runs set slices for all programs: on kernels of EEVDF on which tasks have none of their own.
sets_slices() { [[ $(uname -r) == 6.@([6-9]|1[01])[.-]* ]]; }

# turns VARIANT: a run in which shares are kept by weights, and every node that always
# wanted CPU, from when it has started, had what it has bought.
turns() {
  local out=$scratch/runs/slices/$1
  (cd "$scratch" && diorama run slices --node-cores 1 --variant "$1" --out "$out") || return
  perl -MJSON::PP -e 'local $/; open my $f, "<", "$ARGV[0]/result.json" or die $!;
    my %said = map { $_->{name} => $_->{says} } @{decode_json(<$f>)->{fidelity}{checks}};
    print "$said{$_}\n" for "clock-lead", "cpu-entitlement";
    $said{"clock-lead"} !~ /CFS quota/ or die "they had none";
    $said{"cpu-entitlement"} =~ /; all of them together gave .* ([\d.]+) %\.$/ or die "nobody wanted CPU";
    die "$1 % of what was bought" if abs($1 - 100) > 5' "$out" && left_nothing
}

# A run that is killed while the setting is another one, and then a command, which says what it restores.
slices_killed() {
  local changed
  begin slowed "$diorama" run slices --node-cores 1 --variant baseline --out "$scratch/runs/slowed"
  comes_to slowed event zero || return
  settings | LC_ALL=C sort >"$scratch/during"
  kill -KILL "$begun"
  ended slowed 137 || return
  comes nothing_new there_is_still || { cat "$scratch/left"; return 1; }
  changed=$(LC_ALL=C comm -13 "$scratch/settings" "$scratch/during" | grep '/sched/base_slice_ns:')
  begin restored "$diorama" check slices
  ended restored 0 || return
  cat "$scratch/restored.said"
  if sets_slices; then
    [ -n "$changed" ] || { echo "it has set nothing"; return 1; }
    says "base_slice_ns was still" restored || return
  fi
  left_nothing
}

# Where there are cores enough both run at once, in turns of one length, and the last to end restores; else one waits.
two_at_once() {
  local first second=0 out=$scratch/runs/slices how="--node-cores 1 --variant baseline --wait"
  # shellcheck disable=SC2086
  (cd "$scratch" && exec timeout -k 20 "$patience" "$diorama" run slices $how --out "$out/a") &
  first=$!
  # shellcheck disable=SC2086
  (cd "$scratch" && diorama run slices $how --out "$out/b") || second=$?
  wait "$first" || return
  [ "$second" = 0 ] && left_nothing
}
