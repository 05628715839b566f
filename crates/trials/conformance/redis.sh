# program: redis
# packages: redis-server
redis-server --port 0 --unixsocket "$PWD/s" --save '' --daemonize no >log & n=$!
r() { redis-cli -s "$PWD/s" "$@"; }
until r ping >/dev/null 2>&1; do sleep 0.01; done
r set k v px 300 >/dev/null
s=$(date +%s%3N); while [ "$(r get k)" = v ]; do sleep 0.005; done; e=$(date +%s%3N); echo 295 $((e - s)) expiry
s=$(date +%s%3N); r blpop none 0.2 >/dev/null; e=$(date +%s%3N); echo 200 $((e - s)) BLPOP
kill $n; wait $n || :
