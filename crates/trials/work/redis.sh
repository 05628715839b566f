# work: redis-benchmark, 50 clients, GET
# rate: requests/s
# goal: 0.95
[ "$1" = prepare ] && exit
redis-server --port 0 --unixsocket "$PWD/s" --save '' --daemonize no >log & n=$!
until redis-cli -s "$PWD/s" ping >/dev/null 2>&1; do sleep 0.01; done
redis-benchmark -s "$PWD/s" -t get -n 200000 -c 50 --csv | sed -n 's/^"GET","\([0-9.]*\)".*/\1/p'
kill $n; wait $n || :
