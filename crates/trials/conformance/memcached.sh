# program: memcached
# packages: memcached python3
memcached -u nobody -s "$PWD/s" -a 0777 & n=$!; chmod 777 .
python3 - <<'P'
import socket, time
while True:
    try: s = socket.socket(socket.AF_UNIX); s.connect('s'); break
    except OSError: time.sleep(.01)
def ask(q): s.sendall(q + b'\r\n'); return s.recv(4096)
time.sleep(1.1)
t = time.monotonic(); ask(b'set k 0 5 1\r\nv')
while b'VALUE' in ask(b'get k'): time.sleep(.01)
# It counts whole seconds.
print(4000, int((time.monotonic() - t) * 1000), 'expiry of 5 s, to the second')
P
kill $n; wait $n || :
