"""Starts programs on other nodes for `mpirun`, in place of a remote shell: the nodes' network is nobody else's.

agent.py serve: runs what it is told, one line a connection.
agent.py HOST COMMAND ...: has the agent of HOST run it, and lasts as long as that does.
"""

import socket
import subprocess
import sys
import threading

PORT = 514


def run(connection):
    with connection, connection.makefile("rwb") as stream:
        command = stream.readline().decode()
        done = subprocess.run(["sh", "-c", command], stdin=subprocess.DEVNULL, check=False)
        stream.write(b"%d\n" % done.returncode)


def serve():
    with socket.create_server(("", PORT)) as listener:
        while True:
            threading.Thread(target=run, args=listener.accept()[:1], daemon=True).start()


def ask(host, command):
    with socket.create_connection((host, PORT)) as connection, connection.makefile("rwb") as stream:
        stream.write(command.encode() + b"\n")
        stream.flush()
        sys.exit(int(stream.readline() or 255))


if sys.argv[1] == "serve":
    serve()
else:
    # As a remote shell has it, the words are one line for the shell there.
    ask(sys.argv[1], " ".join(sys.argv[2:]))
