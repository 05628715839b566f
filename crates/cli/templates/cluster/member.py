"""A member of a cluster: member.py SECONDS MEMBER... It says ten times a second to all that it is there, and follows
the first of those whom it has heard in the last half second. /out/log: when, and how many others it hears."""

import socket
import sys
import time

PORT, EVERY, PATIENCE = 7000, 0.1, 0.5


def main():
    me, others = socket.gethostname(), sys.argv[2:]
    others.remove(me)
    messages = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    messages.bind(("", PORT))
    begun = time.time()
    heard, leader, changes = {}, None, 0
    turn = 0
    with open("/out/log", "w") as log:
        while time.time() < begun + float(sys.argv[1]):
            for other in others:
                messages.sendto(me.encode(), (other, PORT))
            turn += 1
            while (rest := begun + turn * EVERY - time.time()) > 0:
                messages.settimeout(rest)
                try:
                    heard[messages.recv(100).decode()] = time.time()
                except TimeoutError:
                    break
            now = time.time()
            hears = [other for other in heard if now - heard[other] < PATIENCE]
            print(f"{now:.6f} {len(hears)}", file=log)
            first = min([me] + hears)
            if first != leader:
                changes += leader is not None
                leader = first
                print(f"{now - begun:.3f} s: follows {leader}", flush=True)
    print(f"followed another {changes} times")


main()
