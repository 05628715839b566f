# program: nginx (keepalive time-out)
# packages: nginx python3
mkdir logs
printf 'daemon off; pid n.pid; error_log stderr; events {} http { access_log off; keepalive_timeout 1s; client_body_temp_path t; proxy_temp_path t; fastcgi_temp_path t; uwsgi_temp_path t; scgi_temp_path t; server { listen unix:%s/s; location / { return 200 x; } } }' "$PWD" >c
nginx -p "$PWD" -c "$PWD/c" & n=$!
python3 - <<'P'
import socket, time
while True:
    try: s = socket.socket(socket.AF_UNIX); s.connect('s'); break
    except OSError: time.sleep(.01)
s.sendall(b'GET / HTTP/1.1\r\nHost: x\r\n\r\n'); s.recv(4096)
t = time.monotonic()
while s.recv(4096): pass
print(1000, int((time.monotonic() - t) * 1000 + 2), 'keepalive_timeout')
P
kill $n; wait $n || :
