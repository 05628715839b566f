# Runs in other places than a shell of root's: services, containers, and where something lacks. Sourced by
# scripts/stock-checks.
# shellcheck shell=bash

# ---- as a service of systemd ----

service() {
  begin service systemd-run --quiet --wait --pipe --collect --unit=stock-checks-run \
    --working-directory="$scratch" "$diorama" run stock --variant baseline --out "$scratch/runs/service"
  ended service 0 && has_results service && left_nothing
}

# One that is stopped in its middle tears all down: it is not only killed.
service_stopped() {
  local unit=stock-checks-stopped.service code=0 status
  rm -rf "$scratch/runs/stopped"
  systemd-run --quiet --unit="$unit" --working-directory="$scratch" \
    "$diorama" run stock --variant scaled --out "$scratch/runs/stopped" || return
  comes works stopped || { journalctl --no-pager -u "$unit"; return 1; }
  systemctl stop "$unit" || code=1
  status=$(systemctl show -P ExecMainStatus "$unit")
  systemctl reset-failed "$unit"
  [ "$code" = 0 ] && [ "$status" = 130 ] || { echo "stopped with $code, and the run ended with $status"; return 1; }
  grep -q interrupted "$scratch/runs/stopped/result.json" && left_nothing
}

# ---- in a container ----
#
# An engine such as Docker or Podman hands an OCI runtime a bundle, and so does this: its root is this machine's,
# read-only, and /run and /tmp are file systems in memory. Container engines themselves are not needed.

# bundle [privileged] [cgroupns=host] COMMAND…: the config.json of `docker run`, with those options, and with
# `-v /run/diorama:/run/diorama -v /var/lib/diorama:/var/lib/diorama`, and with the experiment.
bundle() {
  local privileged='' cgroupns=''
  if [ "$1" = privileged ]; then privileged=1; shift; fi
  if [ "$1" = cgroupns=host ]; then cgroupns=host; shift; fi
  mkdir -p "$scratch/bundle/root" /run/diorama /var/lib/diorama
  perl -MJSON::PP -e '
    my ($privileged, $cgroupns, $scratch, @args) = @ARGV;
    # What the kernel knows, and what Docker leaves to a container.
    my @all = map { "CAP_$_" } qw(CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP
      LINUX_IMMUTABLE NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO
      SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE
      AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF
      CHECKPOINT_RESTORE);
    my @few = map { "CAP_$_" } qw(CHOWN DAC_OVERRIDE FSETID FOWNER MKNOD NET_RAW SETGID SETUID SETFCAP SETPCAP
      NET_BIND_SERVICE SYS_CHROOT KILL AUDIT_WRITE);
    my @held = $privileged ? @all : @few;
    my $mount = sub { my ($at, $type, $source, @options) = @_;
      {destination => $at, type => $type, source => $source, options => \@options} };
    my $ro = $privileged ? "rw" : "ro";
    my @dev = $privileged ? $mount->("/dev", "bind", "/dev", "rbind", "rw") :
      ($mount->("/dev", "tmpfs", "tmpfs", "nosuid", "mode=755"),
       $mount->("/dev/pts", "devpts", "devpts", "nosuid", "newinstance", "ptmxmode=0666"));
    my @spaces = map { {type => $_} } qw(pid mount ipc uts network), $cgroupns ? () : "cgroup";
    my @devices = {allow => $privileged ? JSON::PP::true : JSON::PP::false, access => "rwm"};
    print encode_json({
      ociVersion => "1.0.0", hostname => "container",
      root => {path => "root", readonly => JSON::PP::true},
      process => {
        user => {uid => 0, gid => 0}, cwd => $scratch, args => \@args,
        env => ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"],
        capabilities => {map { $_ => \@held } qw(bounding effective permitted)},
      },
      mounts => [
        $mount->("/proc", "proc", "proc"), @dev, $mount->("/sys", "sysfs", "sysfs", $ro),
        $mount->("/sys/fs/cgroup", "cgroup", "cgroup", $ro, "nosuid", "noexec", "nodev", "relatime"),
        (map { $mount->($_, "tmpfs", "tmpfs", "mode=1777") } "/run", "/tmp"),
        map { $mount->($_, "bind", $_, "rbind", "rw") } "/run/diorama", "/var/lib/diorama", $scratch,
      ],
      linux => {namespaces => \@spaces, resources => {devices => \@devices}, cgroupsPath => "/container"},
    })' "$privileged" "$cgroupns" "$scratch" "$@" >"$scratch/bundle/config.json"
}

# Starts the bundle in the background as process $begun, named NAME.
contain() { # contain NAME
  # shellcheck disable=SC2016
  begin "$1" unshare -m sh -c 'mount --bind / bundle/root && exec "$@"' sh \
    "$runtime" --root "$scratch/containers" run --bundle bundle stock-checks
}

# What the runtime itself leaves, as of what the root group passes on, is not a run's: what there is after a first
# container is what there was.
containers=
after_containers() {
  [ -z "$containers" ] || return 0
  bundle privileged cgroupns=host true || return
  contain trial
  ended trial 0 && remember && containers=yes
}

container() {
  after_containers || return
  bundle privileged cgroupns=host "$diorama" run stock --variant scaled --out "$scratch/runs/container" || return
  contain container
  ended container 0 && has_results container && left_nothing
}

# As `docker kill`: groups and files stay, until the next command that sees them.
container_killed() {
  after_containers || return
  bundle privileged cgroupns=host "$diorama" run stock --variant scaled --out "$scratch/runs/contained" || return
  contain contained
  comes_to contained works || return
  "$runtime" --root "$scratch/containers" kill stock-checks KILL || return
  ended contained 137 || return
  goes_with_next
}

# refused TEXT NAME: what has begun ends with 3, says this, and leaves nothing.
refused() {
  ended "$2" 3 || return
  cat "$scratch/$2.said"
  says help: "$2" && says "$1" "$2" && left_nothing
}

# As engines start containers unless told otherwise, and with one of the two options that it takes.
container_lacking() { # container_lacking [privileged]
  after_containers || return
  bundle "$@" "$diorama" run stock --out "$scratch/runs/lacking" || return
  contain lacking
  refused '--privileged --cgroupns=host' lacking
}
# But for this no rights are needed.
container_dilates() {
  after_containers || return
  bundle "$diorama" dilate --tdf 10 -- date +%Y || return
  contain dilates
  ended dilates 0 && says "$(date +%Y)" dilates
}
# `doctor` says so, too.
container_doctor() { # container_doctor [privileged]
  after_containers || return
  bundle "$@" "$diorama" doctor || return
  contain doctor
  ended doctor 3 || return
  cat "$scratch/doctor.said"
  grep '^LACKING' "$scratch/doctor.said" | grep -qF -- '--privileged --cgroupns=host'
}

# ---- where something lacks ----

# What a command sees: control groups that cannot be changed.
readonly_groups() {
  # shellcheck disable=SC2016
  begin unchangeable unshare -m sh -c 'for place in $(awk "\$3 ~ /^cgroup/ { print \$2 }" /proc/mounts); do
      mount -o remount,bind,ro "$place" || exit
    done; exec "$@"' sh "$diorama" run stock --out "$scratch/runs/unchangeable"
  refused "$groups" unchangeable
}

# Of a hierarchy without `cpu`: in version 2 a namespace whose root is a group to which nothing is passed on.
without_cpu() {
  local inside=$groups/stock-checks/inside code=0
  if ! has_second; then
    # shellcheck disable=SC2016
    begin poor unshare -m sh -c 'umount "$1" && shift && exec "$@"' sh "$groups/cpu,cpuacct" \
      "$diorama" run stock --out "$scratch/runs/poor"
    refused cpu poor
    return
  fi
  mkdir -p "$inside" || return
  # Where systemd owns the groups, it is not to be found there.
  # shellcheck disable=SC2016
  begin poor sh -c 'echo 0 >"$1/cgroup.procs" && shift && exec "$@"' sh "$inside" \
    unshare -C -m sh -c 'umount -l "$1" && mount -t cgroup2 none "$1" &&
      { [ ! -d /run/systemd ] || mount -t tmpfs none /run/systemd; } &&
      ! grep -w cpu "$1/cgroup.controllers" && shift && exec "$@"' sh "$groups" \
    "$diorama" run stock --out "$scratch/runs/poor"
  refused cpu poor || code=1
  rmdir "$inside" "${inside%/*}" && return "$code"
}

# One that allows no namespaces of a kind: the kernel says then that no space is left, which is about no disk.
without_namespaces() {
  local file=/proc/sys/user/max_cgroup_namespaces allowed code=0
  allowed=$(cat "$file") && echo 0 >"$file" || return
  begin unnamed "$diorama" run stock --out "$scratch/runs/unnamed"
  refused "${file##*/}" unnamed || code=1
  diorama doctor >"$scratch/unnamed.said"
  grep '^LACKING *namespaces.*max_cgroup_namespaces' "$scratch/unnamed.said" || code=1
  echo "$allowed" >"$file" && return "$code"
}

# The kernel locks debugfs, as under Secure Boot. A run goes on; where turns are had by a setting there, it says that it
# has none. That cannot be undone, so nothing comes after this.
locked_debugfs() {
  local security=/sys/kernel/security out=$scratch/runs/locked
  mountpoint -q "$security" || mount -t securityfs none "$security" || return
  grep -qF '[integrity]' "$security/lockdown" || echo integrity >"$security/lockdown" || return
  # What is in debugfs can no longer be read, either.
  remember
  diorama doctor >"$scratch/locked.said"
  (cd "$scratch" && diorama run stock --variant scaled --out "$out") && has_results locked || return
  perl -MJSON::PP -e 'local $/; open my $f, "<", "$ARGV[0]/result.json" or die $!;
    my $fidelity = decode_json(<$f>)->{fidelity};
    my ($lead) = grep { $_->{name} eq "clock-lead" } @{$fidelity->{checks}};
    print "$fidelity->{verdict}: $lead->{says}\n";
    my $turns = $lead->{says} !~ /CFS quota/;
    exit !($ARGV[1] ? !$turns && $fidelity->{verdict} eq "suspect" : $turns)' "$out" "$(sets_slices && echo sets)" ||
    return
  if sets_slices; then grep -F 'locked down (integrity' "$scratch/locked.said" || return; fi
  left_nothing
}
