# program: nginx (keepalive time-out)
# packages: nginx python3
# It looks at a clock that is up to a tick behind.
mkdir logs
cat >c <<C
daemon off; pid n.pid; error_log stderr; events {}
http {
  access_log off; keepalive_timeout 1s;
  client_body_temp_path t; proxy_temp_path t; fastcgi_temp_path t; uwsgi_temp_path t; scgi_temp_path t;
  server { listen unix:$PWD/s; location / { return 200 x; } }
}
C
nginx -p "$PWD" -c "$PWD/c" & n=$!
python3 "$(dirname "$0")/until-closed.py" s 'GET / HTTP/1.1\r\nHost: x\r\n\r\n' 990 'keepalive_timeout of 1 s'
kill $n; wait $n || :
