# Fresh roots of distributions, for the scripts that source this: `scripts/test-packages` and `scripts/image`. They have
# a function `fail MESSAGE [CODE]`, and give their own directory in `$work`, which they remove.
#
# Packages come from where this machine has its own; where apt has none of Debian's or of Ubuntu's, from $DEBIAN or
# $UBUNTU, such as UBUNTU=http://mirror.example.org/ubuntu.

# Where apt has the packages of `debian` or `ubuntu`; nothing if nowhere.
site() {
  local found
  found=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' |
    awk -v end="/$1/?$" '$0 ~ end && !found { found = $0 } END { print found }')
  case $1 in
    debian) echo "${DEBIAN:-$found}" ;;
    ubuntu) echo "${UBUNTU:-$found}" ;;
  esac
}

# Fetches Ubuntu's keys, for which Debian vouches.
ubuntu_keys() {
  (cd "$work" && apt-get -qq download ubuntu-keyring && dpkg-deb -x ubuntu-keyring_*.deb keys) >&2
  echo "$work/keys/usr/share/keyrings/ubuntu-archive-keyring.gpg"
}

# make_root SUITE debian|ubuntu ROOT: a root in which no service is started.
make_root() {
  local suite=$1 distribution=$2 root=$3 mirror keys=() script=() more=
  mirror=$(site "$distribution")
  [ -n "$mirror" ] || fail "apt has no packages of $distribution here: ${distribution^^}=URL says where they are" 3
  if [ "$distribution" = ubuntu ]; then
    keys=(--keyring="$(ubuntu_keys)")
    # One script of debootstrap's is right for all of Ubuntu's releases.
    script=(/usr/share/debootstrap/scripts/gutsy)
    more=,universe
  fi
  debootstrap --variant=minbase --components="main$more" "${keys[@]}" "$suite" "$root" "$mirror" "${script[@]}" \
    >"$work/log" 2>&1 || { tail -n 20 "$work/log" >&2; fail "$suite: debootstrap failed"; }
  printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
  chmod 755 "$root/usr/sbin/policy-rc.d"
}

# inside ROOT COMMAND…: as on a machine that was booted so: with /proc, /sys, /dev, and where live runs are registered.
# The root is a mount point, as any machine's is. All mounts go with the command.
inside() {
  mkdir -p /run/diorama "$1/run/diorama"
  unshare --mount --propagation private sh -ec '
    root=$1; shift
    mount --rbind "$root" "$root"
    mount -t proc proc "$root/proc"
    mount --rbind /sys "$root/sys"
    mount --rbind /dev "$root/dev"
    mount --bind /run/diorama "$root/run/diorama"
    exec chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
      DEBIAN_FRONTEND=noninteractive "$@"' sh "$@"
}

# install_deb ROOT DEB: as a user does it, with what the package depends on.
install_deb() {
  cp "$2" "$1/tmp/"
  inside "$1" apt-get -qq update
  inside "$1" apt-get -qq install -y "/tmp/$(basename "$2")" >"$work/log" 2>&1 ||
    { tail -n 20 "$work/log" >&2; fail "apt could not install $2"; }
  rm "$1/tmp/$(basename "$2")"
}
