"""Asks each of some servers so often for a page, in turns, and writes when and how long that took to /out/SERVER."""

import socket
import sys
import time


def ask(server):
    with socket.create_connection((server, 80)) as connection:
        connection.sendall(b"GET /page HTTP/1.0\r\n\r\n")
        received = b""
        while more := connection.recv(65536):
            received += more
    assert received.endswith(b"x" * 20000), f"{server} sent {received[:100]}"


def main():
    times, servers = int(sys.argv[1]), sys.argv[2:]
    logs = {server: open(f"/out/{server}", "w") for server in servers}
    for _ in range(times):
        for server in servers:
            start = time.time()
            ask(server)
            logs[server].write(f"{start:.6f} {time.time() - start:.6f}\n")


main()
