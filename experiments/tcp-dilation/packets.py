"""packets.py FILE COMMAND...: runs a command, and writes when which data left this node meanwhile.

A line for each packet with data: the kernel's stamp of when it was handed to the interface, as a Unix time, and the place in its
connection, in bytes since the first. The stamp is taken in the kernel, so that it does not matter when this program is scheduled.
"""

import select
import socket
import struct
import subprocess
import sys

SO_TIMESTAMPNS = 35
SO_RCVBUFFORCE = 33
SOL_PACKET, PACKET_STATISTICS = 263, 6
ETH_P_IP = 0x0800
IDLE_MS = 50

capture = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0003))
try:
    capture.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)
except PermissionError:
    capture.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 20)
capture.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
command = subprocess.Popen(sys.argv[2:])
ready = select.poll()
ready.register(capture, select.POLLIN)
packets = []
header = bytearray(40)
while True:
    if not ready.poll(IDLE_MS):
        if command.poll() is not None:
            break
        continue
    _, control, _, (_, protocol, kind, _, _) = capture.recvmsg_into([header], 64)
    if kind != socket.PACKET_OUTGOING or protocol != ETH_P_IP or header[9] != socket.IPPROTO_TCP:
        continue
    (length,) = struct.unpack_from("!H", header, 2)
    ip = (header[0] & 15) * 4
    (place,) = struct.unpack_from("!I", header, ip + 4)
    if length > ip + (header[ip + 12] >> 4) * 4:
        stamp = next(data for _, kind, data in control if kind == SO_TIMESTAMPNS)
        packets.append((struct.unpack_from("@qq", stamp), place))
_, lost = struct.unpack("@II", capture.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
if lost:
    sys.exit(f"{lost} packets were not seen")
with open(sys.argv[1], "w") as out:
    for (seconds, nanoseconds), place in packets:
        print(f"{seconds}.{nanoseconds:09} {(place - packets[0][1]) % (1 << 32)}", file=out)
sys.exit(command.returncode)
