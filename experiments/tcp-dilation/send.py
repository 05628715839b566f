"""Sends as much as TCP takes for DURATION seconds: by default a little more than twelve."""

import os
import socket
import time

DURATION = float(os.environ.get("DURATION", "12.5"))

connection = socket.socket()
if name := os.environ["CONGESTION"]:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
connection.connect(("receiver", 5000))
print(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode())
data = bytes(1 << 16)
end = time.monotonic() + DURATION
while time.monotonic() < end:
    connection.sendall(data)
connection.close()
