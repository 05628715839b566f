"""Steps that end when the slowest worker has done its part.

step.py lead WORKERS SECONDS: tells all workers to begin a step, waits for all of them, and so on, for so long.
step.py work LEADER: does what it is told. A part is a little hashing and some messages between two processes.
"""

import hashlib
import os
import socket
import sys
import time

PORT = 700
DATA = bytes(4096)
# A third of a millisecond on a core of 2024.
ROUNDS = 120
# Messages to the second process and back.
MESSAGES = 5


def lead(workers, seconds):
    with socket.create_server(("", PORT), backlog=workers) as listener:
        connections = [listener.accept()[0] for _ in range(workers)]
    for connection in connections:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    begin = now = time.time()
    steps = []
    while now - begin < seconds:
        for connection in connections:
            connection.sendall(b"s")
        for connection in connections:
            if connection.recv(1) != b"d":
                sys.exit("a worker has gone")
        then, now = now, time.time()
        steps.append((then, now - then))
    with open("/out/log", "w") as log:
        log.writelines(f"{then * 1e6:.0f} {took * 1e6:.1f}\n" for then, took in steps)
    print(f"{len(steps) / (now - begin):.3f} steps a second")


def work(leader):
    to_second, from_first = os.pipe(), os.pipe()
    if os.fork() == 0:
        os.close(to_second[1])
        while os.read(to_second[0], 1):
            os.write(from_first[1], b"a")
        os._exit(0)
    connection = socket.create_connection((leader, PORT))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while connection.recv(1):
        for _ in range(ROUNDS):
            hashlib.sha256(DATA).digest()
        for _ in range(MESSAGES):
            os.write(to_second[1], b"q")
            os.read(from_first[0], 1)
        connection.sendall(b"d")
    os.close(to_second[1])
    os.wait()


if sys.argv[1] == "lead":
    lead(int(sys.argv[2]), float(sys.argv[3]))
else:
    work(sys.argv[2])
