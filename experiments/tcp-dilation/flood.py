"""flood.py PORT COUNT SECONDS: sends as much as TCP takes over COUNT connections for SECONDS, and breaks them off."""

import selectors
import socket
import struct
import sys
import time

PORT, COUNT, SECONDS = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
end = time.monotonic() + SECONDS
receiver = (socket.gethostbyname("receiver"), PORT)
waiting = selectors.DefaultSelector()
connections = []
for _ in range(COUNT):
    connection = socket.socket()
    connection.setblocking(False)
    # None waits for the one before: the first packet of one may be lost.
    connection.connect_ex(receiver)
    connections.append(connection)
    waiting.register(connection, selectors.EVENT_WRITE)
data = bytes(1 << 16)
while (left := end - time.monotonic()) > 0:
    for key, _ in waiting.select(left):
        try:
            key.fileobj.send(data)
        except ConnectionError:
            # The receiver has seen enough.
            waiting.unregister(key.fileobj)
for connection in connections:
    # What is still waiting to be sent would keep a narrow link busy for long.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
