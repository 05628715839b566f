# work: building 340 files of BusyBox with gcc
# cost: CPU s
# goal: 1.25
# source: busybox
cd busybox-*/
case $1 in
  prepare) make defconfig >/dev/null && make prepare >/dev/null ;;
  *) make -j2 libbb/ coreutils/ findutils/ editors/ shell/ archival/ procps/ util-linux/ >/dev/null ;;
esac
