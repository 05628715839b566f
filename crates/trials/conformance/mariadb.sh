# program: MariaDB
# packages: mariadb-server
chmod 755 .; mkdir d; chown nobody d
mariadb-install-db --no-defaults --user=nobody --datadir="$PWD/d" --skip-test-db \
  --auth-root-authentication-method=normal >log 2>&1
mariadbd --no-defaults --user=nobody --datadir="$PWD/d" --socket="$PWD/d/s" --skip-networking \
  --pid-file="$PWD/d/p" >>log 2>&1 & n=$!
q() { mariadb --no-defaults -N -u root -S "$PWD/d/s" -e "$1"; }
until q 'select 1' >/dev/null 2>&1; do sleep 0.05; done
q "select 200, timestampdiff(microsecond, sysdate(6), (select if(sleep(0.2) = 0, sysdate(6), 0))) div 1000, 'sleep'"
s=$(date +%s%3N); q "set statement max_statement_time = 0.3 for select sleep(5)" >/dev/null 2>&1; e=$(date +%s%3N)
echo 300 $((e - s)) max_statement_time
kill $n; wait $n || :
