"""What the nodes of `mesh` run: serve | ping SECONDS | fetch SECONDS. Programs and clocks know nothing of dilation."""
import select
import socket
import struct
import sys
import threading
import time

PACE = 0.005  # seconds between two pings


def echo():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(("", 7))
    while True:
        data, peer = s.recvfrom(2048)
        s.sendto(data, peer)


def serve():
    threading.Thread(target=echo, daemon=True).start()
    listener = socket.create_server(("", 80))
    while True:
        peer, _ = listener.accept()
        try:
            while True:
                peer.sendall(bytes(65536))
        except OSError:
            peer.close()


def ping(seconds):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.connect(("server", 7))
    log = open("/out/log", "w")
    sent = got = late = latest = 0
    start = time.monotonic()
    total = int(seconds / PACE)
    while True:
        now = time.monotonic() - start
        while sent < total and sent * PACE <= now:
            sent += 1
            s.send(struct.pack("!Qd", sent, time.time()))
        if now > seconds + 1:
            break
        next_at = sent * PACE if sent < total else seconds + 1.1
        if select.select([s], [], [], max(0, start + next_at - time.monotonic()))[0]:
            number, began = struct.unpack("!Qd", s.recv(2048))
            log.write(f"{began:.6f} {time.time() - began:.6f}\n")
            got += 1
            late += number < latest
            latest = max(latest, number)
    print(f"sent={sent} lost={100 * (sent - got) / sent:.2f} reordered={100 * late / max(got, 1):.2f}")


def fetch(seconds):
    s = socket.create_connection(("server", 80))
    start, size = time.monotonic(), 0
    while time.monotonic() - start < seconds:
        size += len(s.recv(65536))
    print(f"goodput={8e-6 * size / (time.monotonic() - start):.3f}")


if sys.argv[1] == "serve":
    serve()
{"ping": ping, "fetch": fetch}[sys.argv[1]](float(sys.argv[2]))
