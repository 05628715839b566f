# program: Tor, in its sandbox
# packages: tor python3
# Its list of calls is of its own making, and by its control port it answers, tells how long it runs, and ends.
mkdir -m 700 own; cd own; touch torrc
exec /usr/bin/python3 -c '
import os, socket, subprocess, time
tor = subprocess.Popen(["tor", "--quiet", "-f", "torrc", "--DisableNetwork", "1", "--Sandbox", "1", "--SocksPort", "0",
                        "--DataDirectory", os.getcwd() + "/data", "--ControlPort", "unix:" + os.getcwd() + "/control"])
while not os.path.exists("control"): time.sleep(0.02)
control = socket.socket(socket.AF_UNIX)
control.connect("control")
lines = control.makefile("rw")
def ask(what):
    lines.write(what + "\r\n"); lines.flush()
    return lines.readline()
assert ask("AUTHENTICATE").startswith("250"), "tor does not answer"
def ran():
    told = ask("GETINFO uptime"); lines.readline()
    return int(told.split("=")[1])
assert open(f"/proc/{tor.pid}/status").read().count("Seccomp:\t2"), "tor has no filter"
s = time.monotonic(); before = ran(); time.sleep(2); after = ran(); took = time.monotonic() - s
assert 1 <= after - before <= 3, (before, after)
print(2000, int(took * 1000), "uptime of 2 s", flush=True)
ask("SIGNAL HALT")
assert tor.wait(30) == 0
' 2>&1
