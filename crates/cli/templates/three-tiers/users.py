"""Users who order, and think: users.py FRONT COUNT PAUSE SECONDS. /out/log: when each request began, its time (s)."""

import random
import socket
import sys
import threading
import time


def user(seed, front, pause, end, log):
    chance = random.Random(seed)
    host, port = front.rsplit(":", 1)
    while True:
        time.sleep(chance.expovariate(1 / pause))
        at = time.time()
        if at >= end:
            return
        with socket.create_connection((host, int(port))) as connection, connection.makefile("rwb") as stream:
            stream.write(b"%d\n" % chance.randrange(100))
            stream.flush()
            assert int(stream.readline()) > 0
        print(f"{at:.6f} {time.time() - at:.6f}", file=log)


def main():
    front, count, pause, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])
    end = time.time() + seconds
    with open("/out/log", "w") as log:
        users = [threading.Thread(target=user, args=(n, front, pause, end, log)) for n in range(count)]
        for thread in users:
            thread.start()
        for thread in users:
            thread.join()


main()
