"""Finds a server by broadcast: `find.py serve`, and `find.py find SECONDS` ten times a second.

/out/log: when each question was asked, and how long the answer took (s).
"""

import socket
import sys
import time

PORT, PATIENCE = 7000, 0.5


def serve():
    messages = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    messages.bind(("", PORT))
    while True:
        question, asker = messages.recvfrom(100)
        messages.sendto(question, asker)


def asked(number, messages):
    """How long the answer took, or None."""
    at = time.time()
    messages.sendto(b"%d" % number, ("255.255.255.255", PORT))
    while (rest := at + PATIENCE - time.time()) > 0:
        messages.settimeout(rest)
        try:
            if int(messages.recv(100)) == number:
                return time.time() - at
        except TimeoutError:
            break
    return None


def find(seconds):
    messages = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    messages.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    begun, number, lost = time.time(), 0, 0
    with open("/out/log", "w") as log:
        while (at := time.time()) < begun + seconds:
            took = asked(number, messages)
            if took is None:
                lost += 1
            else:
                print(f"{at:.6f} {took:.6f}", file=log)
            number += 1
            time.sleep(max(0, at + 0.1 - time.time()))
    print(f"{lost} questions without an answer")


if sys.argv[1] == "serve":
    serve()
else:
    find(float(sys.argv[2]))
