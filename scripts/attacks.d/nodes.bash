# Attacks by what runs in nodes.

# Each line is tried by root of a node, and must fail there.
what_reaches_the_host() {
  cat >tries <<'END'
cat /etc/shadow
cat /proc/sys/kernel/core_pattern >/proc/sys/kernel/core_pattern
echo 1 >/proc/sys/vm/drop_caches
echo h >/proc/sysrq-trigger
test -f /proc/sys/vm/stat_refresh
cat /sys/class/zram-control/hot_add
ls -A /sys/bus | grep .
ls -A /proc/fs | grep .
head -c1 /proc/slabinfo | grep .
find /sys/devices/pci* -type f | grep .
f=/proc/sys/net/netfilter/nf_hooks_lwtunnel; test -e $f && cat $f >$f
mount -t tmpfs x /mnt
unshare -m true
unshare -U true
nsenter -t 1 -m -n true
mknod /tmp/disk b 254 0 && head -c1 /tmp/disk
dmesg | grep .
chrt -f 1 true
nice -n -5 sh -c "test \$(nice) -lt 0"
swapon /dev/vda
chattr +i /tmp
ls /proc/1/root/../../home/* | grep .
kill -0 2147483 || kill -9 -1 && false
for f in $(find /sys/fs/cgroup -name cgroup.procs); do echo $$ >$f && exit 0; done; false
sh -c "ulimit -i unlimited"
sh -c "ulimit -q 10000000"
perl -e "syscall(321, 0, 0, 0) >= 0 or exit 1"
perl -e "syscall(250, 3, 0, 0) >= 0 or exit 1"
perl -e "syscall(304, 0, 0, 0) >= 0 or exit 1"
perl -MSocket -e "socket(S, 40, 1, 0) or exit 1"
modprobe dummy
for f in /.diorama/*; do echo x >$f && exit 0; done; false
insmod /dev/null
date -s 2001-01-01
END
  mkdir -p lab
  cp tries lab/tries
  experiment 'while read -r t; do (eval "$t") >/dev/null 2>&1 </dev/null && echo "DONE $t"; done </tries; echo ALL' \
    'files: { /tries: tries }'
  sed -i 's/speed: 0.3/speed: 0.7/; s/limit: 60s/limit: 300s/' lab/experiment.yaml
  run && "$diorama" logs out a >log && cat log && grep -qx ALL log && ! grep -q ^DONE log
}
# As many processes as it can: the host still has some, and the run its end.
as_many_processes_as_it_can() {
  experiment 'perl -e "while (1) { defined fork or select undef, undef, undef, 0.1 }"'
  sed -i 's/limit: 60s/limit: 8s/' lab/experiment.yaml
  run &
  sleep 12; for n in $(seq 50); do /bin/true || return 1; done
  wait $!; true && [ -s out/result.json ]
}
# All of the disk of the state, a small one on which others are, too: the run is ended, with the reason.
all_of_the_disk() {
  on_a_small_disk size=64m 'i=0; while head -c 8000000 /dev/zero >/var/f$i; do i=$((i+1)); sleep 0.1; done; sleep 60' \
    'stay free'
}
# What is printed without an end costs memory, or the disk?
a_flood_of_lines() {
  experiment 'timeout 15 yes; true'
  echo 'logs: 1MiB' >>lab/experiment.yaml
  run && [ "$(du -sk out/nodes/a | cut -f1)" -lt 2048 ]
}
# A line without an end, and a field without one, where rows are read.
rows_without_an_end() {
  experiment 'head -c 200000000 /dev/zero | tr "\0" 1 >/out/log'
  echo 'metrics: { x: { nodes: a, rows: /out/log, value: 1, unit: us } }' >>lab/experiment.yaml
  /usr/bin/time -o kib -f %M timeout 200 "$diorama" run lab --wait --variant baseline --out out
  cat kib; [ "$(tail -n 1 kib)" -lt 204800 ] && [ -s out/result.json ]
}
# A file of results that is a link to root's, a device, a pipe.
results_that_are_links() {
  for what in 'ln -s /proc/self/environ' 'mkfifo' 'ln -s /dev/zero'; do
    rm -rf out
    experiment "${what} /out/log"
    echo 'metrics: { x: { nodes: a, rows: /out/log, value: 1, unit: us } }' >>lab/experiment.yaml
    run; [ -s out/result.json ] || return 1
  done
}
# What a terminal would obey is written out.
what_a_terminal_would_obey() {
  experiment 'printf "\033]0;owned\007\033[2J" >&2; exit 3'
  run >said 2>&1; ! grep -q "$(printf '\033\\]0')" said
}
for one in what_reaches_the_host a_flood_of_lines rows_without_an_end results_that_are_links \
  what_a_terminal_would_obey; do
  attack "$one"
done
dangerous as_many_processes_as_it_can
dangerous all_of_the_disk
