# Kernel settings that programs make, of kinds that not every kernel has: sourced by scripts/stock-checks.
# shellcheck shell=bash

# Natively and dilated by 10 the same commands, in a network of their own, print the same: what is set, is read.
reads_what_it_sets() { # reads_what_it_sets COMMANDS
  local natively dilated text="ip link set lo up; $1"
  natively=$(unshare -n sh -ec "$text" 2>&1) || { echo "natively: $natively"; return 1; }
  dilated=$(diorama dilate --tdf 10 -- unshare -n sh -ec "$text" 2>&1) || { echo "dilated: $dilated"; return 1; }
  [ -n "$natively" ] || { echo "it prints nothing: $1"; return 1; }
  [ "$natively" = "$dilated" ] || { printf 'natively:\n%s\ndilated:\n%s\n' "$natively" "$dilated"; return 1; }
}

# Queues that have times or rates, with times and without; each of these is a module of Debian's kernels. Times of pie
# and hhf are whole ticks of 4 ms, natively, and finer in real time.
settings_of_queues() {
  local queue failed=0
  for queue in "netem delay 50ms 5ms rate 2mbit" "netem delay 20ms slot 2ms 4ms" fq "fq maxrate 20mbit" \
    "fq timer_slack 77us" "fq_codel target 7ms interval 90ms" fq_codel codel "codel target 7ms interval 90ms" \
    "pie target 20ms tupdate 32ms" "fq_pie target 20ms tupdate 32ms" "cake bandwidth 10mbit rtt 80ms" hhf \
    "hhf reset_timeout 52ms evict_timeout 2s" "sfq perturb 10" \
    "etf clockid CLOCK_TAI delta 300000 skip_sock_check" "tbf rate 1mbit burst 5kb latency 2s"; do
    reads_what_it_sets "tc qdisc add dev lo root handle 7: $queue; tc qdisc show dev lo" ||
      { echo "^ $queue"; failed=1; }
  done
  reads_what_it_sets "tc qdisc add dev lo root handle 1: hfsc default 10
    tc class add dev lo parent 1: classid 1:10 hfsc sc m1 2mbit d 10ms m2 1mbit ul rate 3mbit
    tc class show dev lo" || failed=1
  reads_what_it_sets "tc qdisc add dev lo clsact
    tc filter add dev lo egress matchall action police rate 1mbit burst 10k conform-exceed drop
    tc filter show dev lo egress | grep -o 'rate.*burst [^ ]*'" || failed=1
  return "$failed"
}

# A delay of 100 ms on the way there and on the way back, as ping's own clock has it: at TDF 10 the kernel delays
# packets by a second each. Natively with a second as the reference, which the machine makes longer by as much.
delays_by_netem() {
  local natively dilated
  # shellcheck disable=SC2016
  local text='ip link set lo up; tc qdisc add dev lo root netem delay "$1"; ping -c 4 -i "$2" -W 9 127.0.0.1'
  natively=$(unshare -n sh -ec "$text" - 1s 1) || { echo "natively: $natively"; return 1; }
  dilated=$(diorama dilate --tdf 10 -- unshare -n sh -ec "$text" - 100ms 0.2) ||
    { echo "dilated: $dilated"; return 1; }
  printf 'natively:\n%s\ndilated:\n%s\n' "$natively" "$dilated"
  awk -F'[/=]' '/^rtt/ { all[++n] = $6 } END { exit !(n == 2 && all[1] >= 2000 && all[2] >= 200 &&
    all[2] < all[1] / 10 * 1.05 + 2) }' <<<"$natively
$dilated"
}

settings_of_interfaces() {
  reads_what_it_sets "ip link add bond7 type bond mode active-backup miimon 100
    ip link set bond7 type bond updelay 300 downdelay 200
    ip -d link show bond7 | grep -oE '(miimon|updelay|downdelay|lp_interval) [0-9]+'" &&
    reads_what_it_sets "ip link add br7 type bridge ageing_time 7000
      ip -d link show br7 | grep -oE 'ageing_time [0-9]+'
      ip link add vx7 type vxlan id 7 dev lo dstport 4789 ageing 77; ip -d link show vx7 | grep -oE 'ageing [0-9]+'"
}

# Time-outs of connection tracking, and lifetimes of an address, of which few seconds have gone by.
settings_of_tracking() {
  reads_what_it_sets "nft add table inet t
    nft add ct timeout inet t slow '{ protocol tcp; l3proto ip; policy = { established: 900, close: 7 }; }'
    nft list table inet t" &&
    reads_what_it_sets "ip addr add 10.9.9.1/24 dev lo valid_lft 1000 preferred_lft 900
      ip addr show dev lo | grep -c 'valid_lft \(9[0-9][0-9]\|1000\)sec preferred_lft \(8[0-9][0-9]\|900\)sec'"
}
