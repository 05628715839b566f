"""flood.py PORT COUNT SECONDS: sends as much as TCP takes over COUNT connections for SECONDS, and closes them."""

import selectors
import socket
import sys
import time

PORT, COUNT, SECONDS = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
waiting = selectors.DefaultSelector()
connections = []
for _ in range(COUNT):
    connection = socket.create_connection(("receiver", PORT))
    connection.setblocking(False)
    connections.append(connection)
    waiting.register(connection, selectors.EVENT_WRITE)
data = bytes(1 << 16)
end = time.monotonic() + SECONDS
while (left := end - time.monotonic()) > 0:
    for key, _ in waiting.select(left):
        key.fileobj.send(data)
for connection in connections:
    connection.close()
