"""A tier: tier.py PORT WORK NEXT. Each request costs WORK thousand sums, and one of the next tier's answers.

/out/log: when each request began, and how long it took (s). Work is counted and not timed, so that it takes longer
where the machine is slower.
"""

import hashlib
import socket
import sys
import threading
import time


def ask(tier, line):
    host, port = tier.rsplit(":", 1)
    with socket.create_connection((host, int(port))) as connection, connection.makefile("rwb") as stream:
        stream.write(line)
        stream.flush()
        return stream.readline()


def answer(connection, work, tier, log):
    at = time.time()
    with connection, connection.makefile("rwb") as stream:
        line = stream.readline()
        for _ in range(work):
            hashlib.pbkdf2_hmac("sha256", line, b"salt", 1000)
        stream.write(ask(tier, line))
    print(f"{at:.6f} {time.time() - at:.6f}", file=log, flush=True)


def main():
    port, work, tier = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    listening = socket.create_server(("", port), backlog=128)
    with open("/out/log", "w") as log:
        while True:
            connection = listening.accept()[0]
            threading.Thread(target=answer, args=(connection, work, tier, log), daemon=True).start()


main()
