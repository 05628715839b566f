# program: PostgreSQL
# packages: postgresql
# It refuses to run as root.
b=$(ls -d /usr/lib/postgresql/*/bin | tail -1); chmod 755 .; mkdir d; chown nobody d
u() { setpriv --reuid nobody --regid nogroup --clear-groups "$@"; }
u $b/initdb -D "$PWD/d" -A trust -U p --no-sync >log
u $b/postgres -D "$PWD/d" -k "$PWD/d" -h '' >>log 2>&1 & n=$!
q() { $b/psql -qAt -h "$PWD/d" -U p postgres -c "$1"; }
until q 'select 1' >/dev/null 2>&1; do sleep 0.05; done
q "select 200, (extract(epoch from clock_timestamp() - s) * 1000)::int, 'pg_sleep'
  from (select clock_timestamp() s, pg_sleep(0.2)) t" | tr '|' ' '
s=$(date +%s%3N); q "set statement_timeout = 300; select pg_sleep(5)" 2>/dev/null; e=$(date +%s%3N)
echo 300 $((e - s)) statement_timeout
kill -INT "$(head -1 d/postmaster.pid)"; wait $n || :
