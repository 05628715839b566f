"""Takes one connection to its end, and writes how many bytes came in each tenth of a second since the first."""

import socket
import time

STEP = 0.1

with socket.create_server(("", 5000)) as server:
    connection, _ = server.accept()
buffer = bytearray(1 << 18)
counts = []
first = None
while count := connection.recv_into(buffer):
    now = time.time()
    first = first or now
    place = int((now - first) / STEP)
    counts.extend([0] * (place + 1 - len(counts)))
    counts[place] += count
with open("/out/received", "w") as out:
    for place, count in enumerate(counts):
        print(f"{first + place * STEP:.6f} {count}", file=out)
