# program: chrony, with its filter
# packages: chrony python3
# A server that serves its own date, and a client that measures it once and ends; both with the filter of level 1.
cat >server.conf <<C
local stratum 5
allow 127.0.0.1
port 12123
cmdport 0
bindaddress 127.0.0.1
bindcmdaddress $PWD/server.sock
pidfile $PWD/server.pid
C
chronyd -F 1 -x -U -u root -d -f server.conf >server.log 2>&1 & n=$!
until [ -e server.pid ]; do sleep 0.02; done
sleep 0.2
began=$(date +%s%N)
chronyd -F 1 -x -U -u root -t 6 -Q 'server 127.0.0.1 port 12123 iburst' >client.log 2>&1 ||
	{ cat server.log client.log; exit 1; }
took=$((($(date +%s%N) - began) / 1000000))
# Four measurements, 2 s apart, and what it takes by its own date to begin.
off=$(sed -n 's/.*System clock wrong by \(-\{0,1\}[0-9.]*\) seconds.*/\1/p' client.log)
awk -v off="$off" 'BEGIN { exit !(off != "" && off < 0.01 && off > -0.01) }' || { cat client.log; exit 1; }
grep -q 'Seccomp:.2' "/proc/$n/status" || { echo 'chronyd has no filter'; exit 1; }
echo "$((took / 1000 * 1000)) $took measured by iburst"
kill $n; wait $n || :
