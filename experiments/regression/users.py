"""Users, each of whom asks again some time after an answer: COUNT PAUSE SECONDS. /out/log: begun at (µs), took (µs)."""

import random
import socket
import sys
import threading
import time

COUNT, PAUSE, SECONDS = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])


def user(seed, end, rows):
    chance = random.Random(seed)
    while time.time() < end:
        time.sleep(chance.expovariate(1 / PAUSE))
        begun = time.time()
        with socket.create_connection(("service", 8000)) as connection, connection.makefile("rwb") as stream:
            stream.write(b"%d\n" % chance.randrange(3000))
            stream.flush()
            count, _ = stream.readline().split()
        assert int(count) == 20, count
        rows.append((begun, time.time() - begun))


def main():
    begun, rows = time.time(), []
    users = [threading.Thread(target=user, args=(n, begun + SECONDS, rows)) for n in range(COUNT)]
    for thread in users:
        thread.start()
    for thread in users:
        thread.join()
    with open("/out/log", "w") as log:
        log.writelines(f"{at * 1e6:.0f} {took * 1e6:.0f}\n" for at, took in rows)
    print(f"{len(rows) / (time.time() - begun):.1f} requests a second")


main()
