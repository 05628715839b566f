"""Processes of a node with several CPUs: how much each does, and how long work takes that is divided among them.

parallel.py HOW-MANY: they all compute for SECONDS, and write down how many loops a second each did. Then, again and again,
each is told to do some work, and whoever told them waits until all have done it: that is written down in times of what the
work takes one process alone. HOW-MANY is one or two, or half, all or double of the CPUs that the node sees.
"""

import hashlib
import multiprocessing
import os
import sys
import time

# When each part begins, by the node's clock from its start on, and how long all compute, s.
COMPUTE, DIVIDE, SECONDS = 1.5, 4.0, 2.0
LENGTHS_MS = [0.5, 1, 5, 20]
TIMES = 25
# Some 25 µs on a core of 2024.
LOOPS = 50


def work(loops):
    """Hashes so often. A loop of Python's own takes up to 1.6 times as long in one process as in the next, for as long as it
    lives: by where its objects happen to lie."""
    hashlib.pbkdf2_hmac("sha256", b"parallel", b"parallel", loops)


def rate_until(end):
    """How many loops a second this process does until then."""
    begun, done = time.monotonic(), 0
    while (now := time.monotonic()) < end:
        work(LOOPS)
        done += LOOPS
    return done / (now - begun)


def sleep_until(instant):
    while (left := instant - time.monotonic()) > 0:
        time.sleep(left)


def process(start, told, tells):
    sleep_until(start + COMPUTE)
    tells.send(rate_until(start + COMPUTE + SECONDS))
    while loops := told.recv():
        work(loops)
        tells.send(loops)


def main():
    cpus = os.cpu_count()
    processes = {"one": 1, "two": 2, "half": cpus // 2, "all": cpus, "double": 2 * cpus}[sys.argv[1]]
    date, start = time.time(), time.monotonic()
    fork = multiprocessing.get_context("fork")
    pipes = [(fork.Pipe(False), fork.Pipe(False)) for _ in range(processes)]
    for told, tells in pipes:
        fork.Process(target=process, args=(start, told[0], tells[1]), daemon=True).start()
    rates = [tells[0].recv() for _, tells in pipes]
    with open("/out/rates", "w") as log:
        log.writelines(f"{date + COMPUTE:.6f} {rate:.1f}\n" for rate in rates)
    sleep_until(start + DIVIDE)
    alone = rate_until(start + DIVIDE + 0.5)
    for length in LENGTHS_MS:
        with open(f"/out/divided-{length}", "w") as log:
            for _ in range(TIMES):
                time.sleep(2e-3 * length)
                begun, then = time.time(), time.monotonic()
                for told, _ in pipes:
                    told[1].send(max(1, int(1e-3 * length * alone)))
                for _, tells in pipes:
                    tells[0].recv()
                log.write(f"{begun:.6f} {(time.monotonic() - then) / (1e-3 * length):.5f}\n")
    os._exit(0)


main()
