# program: vsftpd (idle time-out)
# packages: vsftpd python3
# Its seccomp sandbox ends every session natively, too ("500 OOPS: priv_sock_get_cmd", with Debian's kernels and glibc).
cat >conf <<C
listen=YES
listen_address=127.0.0.1
listen_port=12121
background=NO
anonymous_enable=YES
anon_root=$PWD
seccomp_sandbox=NO
idle_session_timeout=2
secure_chroot_dir=$PWD/empty
C
mkdir empty; chmod 555 empty
/usr/sbin/vsftpd "$PWD/conf" & n=$!
exec /usr/bin/python3 - $n <<'END'
import os, signal, socket, sys, time
while True:
    try:
        s = socket.create_connection(('127.0.0.1', 12121)); break
    except ConnectionRefusedError:
        time.sleep(0.02)
lines = s.makefile('rw')
def ask(what):
    lines.write(what + '\r\n'); lines.flush()
    return lines.readline()
assert lines.readline().startswith('220'), 'no greeting'
assert ask('USER anonymous').startswith('331') and ask('PASS x').startswith('230'), 'no session'
began = time.monotonic()
said = lines.readline()
took = int((time.monotonic() - began) * 1000)
assert said.startswith('421'), said
print(2000, took, 'idle time-out of 2 s', flush=True)
os.kill(int(sys.argv[1]), signal.SIGTERM)
END
