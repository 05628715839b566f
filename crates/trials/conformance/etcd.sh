# program: etcd (static Go)
# packages: etcd-server etcd-client
etcd --data-dir d --listen-client-urls unix://localhost:1 --advertise-client-urls unix://localhost:1 \
  --listen-peer-urls http://127.0.0.1:12380 >log 2>&1 & n=$!
c() { ETCDCTL_API=3 etcdctl --endpoints unix://localhost:1 "$@"; }
until c endpoint health >/dev/null 2>&1; do sleep 0.05; done
l=$(c lease grant 4 | cut -d' ' -f2); c put k v --lease "$l" >/dev/null; s=$(date +%s%3N)
while [ -n "$(c get k)" ]; do sleep 0.02; done; e=$(date +%s%3N); echo 3900 $((e - s)) lease of 4 s
kill $n; wait $n || :
