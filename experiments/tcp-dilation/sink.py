"""sink.py SECONDS PORT:COUNT...: takes COUNT connections at each PORT, and writes what each one brought.

A row of /out/PORT for each connection: when it was opened, as a Unix time, and the Mbit/s that came in the SECONDS after the first
connection of all was opened. Ends a second later: that a connection was broken off may have been lost on the way.
"""

import selectors
import socket
import sys
import time

SECONDS = float(sys.argv[1])
expected = {int(port): int(count) for port, count in (argument.split(":") for argument in sys.argv[2:])}
waiting = selectors.DefaultSelector()
for port in expected:
    server = socket.create_server(("", port), backlog=expected[port])
    server.setblocking(False)
    waiting.register(server, selectors.EVENT_READ, None)
buffer = bytearray(1 << 18)
first = None
opened = {port: [] for port in expected}
while not first or time.time() - first < SECONDS + 1:
    for key, _ in waiting.select(0.1):
        now = time.time()
        if key.data is None:
            connection, _ = key.fileobj.accept()
            connection.setblocking(False)
            first = first or now
            flow = [now, 0]
            opened[key.fileobj.getsockname()[1]].append(flow)
            waiting.register(connection, selectors.EVENT_READ, flow)
            continue
        try:
            count = key.fileobj.recv_into(buffer)
        except ConnectionResetError:
            count = 0
        if not count:
            waiting.unregister(key.fileobj)
            key.fileobj.close()
        elif now - first < SECONDS:
            key.data[1] += count
for port, flows in opened.items():
    with open(f"/out/{port}", "w") as out:
        for start, count in flows:
            print(f"{start:.6f} {count * 8e-6 / SECONDS:.6f}", file=out)
