# program: HAProxy
# packages: haproxy python3
printf 'defaults\n mode http\n timeout client 300ms\n timeout server 5s\n timeout connect 1s\n timeout http-request 300ms\nfrontend f\n bind 127.0.0.1:18081\n http-request return status 200\n' >c
haproxy -db -f c & n=$!
python3 - <<'P'
import socket, time
while True:
    try: s = socket.create_connection(('127.0.0.1', 18081)); break
    except OSError: time.sleep(.01)
t = time.monotonic(); s.sendall(b'GET / HT')
while s.recv(4096): pass
print(300, int((time.monotonic() - t) * 1000 + 2), 'http-request time-out')
P
kill $n; wait $n || :
