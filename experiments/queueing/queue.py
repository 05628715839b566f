"""A queue whose times are known: servers that work for as long as they are asked to, and a client that asks at
random instants and reckons when each answer should have come."""
import heapq
import multiprocessing
import os
import random
import socket
import struct
import sys
import threading
import time

PORT = 900
ASK = struct.Struct("!Id")  # number, s of work
ANSWER = struct.Struct("!Idd")  # number, s that the work took by the server's clock and by its CPU's
LOOPS = 2_000


def work(loops):
    for _ in range(loops):
        pass


def loops_per_second():
    """How much work a CPU of this node does, by the node's own clock."""
    work(100 * LOOPS)
    begun, done = time.monotonic(), 0
    while time.monotonic() - begun < 0.5:
        work(LOOPS)
        done += LOOPS
    return done / (time.monotonic() - begun)


def serve(workers):
    asked = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    asked.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    asked.bind(("", PORT))
    speed = loops_per_second()

    def answer():
        while True:
            message, client = asked.recvfrom(64)
            begun, cpu = time.monotonic(), time.thread_time()
            number, length = ASK.unpack(message)
            work(int(length * speed))
            took = (time.monotonic() - begun, time.thread_time() - cpu)
            asked.sendto(ANSWER.pack(number, *took), client)

    others = [multiprocessing.get_context("fork").Process(target=answer) for _ in range(workers)]
    for other in others:
        other.start()
    ready = socket.create_server(("", PORT))
    print(f"{workers} workers, each {speed:.0f} loops a second", flush=True)
    while True:
        ready.accept()[0].close()


def expected(arrivals, services, workers, path):
    """When each answer comes: whoever came first is served first, by whichever worker is free first."""
    free = [0.0] * workers
    for at, service in zip(arrivals, services):
        begun = max(at + path / 2, heapq.heappop(free))
        heapq.heappush(free, begun + service)
        yield begun + service + path / 2 - at


def ask(server, workers, kind, mean, path, seconds):
    """Asks for `seconds` at each of three loads of the server; `mean` service time and `path`, there and back, in s."""
    draw = random.Random(f"{kind}-{workers}")
    # Resolved once: a look-up would be part of the first time.
    server = (socket.gethostbyname(server), PORT)
    link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    link.bind(("", PORT + 1))
    came = {}

    def listen():
        while True:
            number, clock, cpu = ANSWER.unpack(link.recv(64))
            came[number] = (time.monotonic(), clock if workers == 1 else cpu)

    threading.Thread(target=listen, daemon=True).start()
    loads = {}
    for load in [0.3, 0.6, 0.8]:
        came.clear()
        sent, services = [], []
        at = begun = time.monotonic()
        while True:
            at += draw.expovariate(load * workers / mean)
            if at > begun + seconds:
                break
            time.sleep(max(0.0, at - time.monotonic()))
            services.append(draw.expovariate(1 / mean) if kind == "M" else mean)
            sent.append(time.monotonic())
            link.sendto(ASK.pack(len(sent) - 1, services[-1]), server)
        time.sleep(30 * mean + path)
        loads[load] = (sent, services, dict(came))
    with open("/out/log", "w") as log:
        for load, (sent, services, came) in loads.items():
            # What was lost, or is still to come, is served for as long as it asked to be.
            services = [came[i][1] if i in came else length for i, length in enumerate(services)]
            wanted = list(expected(sent, services, workers, path))
            pairs = [(came[i][0] - sent[i], wanted[i], sent[i]) for i in range(len(sent)) if i in came]
            for took, should, at in pairs:
                log.write(f"{at:.6f}\t{load}\t{took * 1e6:.0f}\t{should * 1e6:.0f}\n")
            took, should = sorted(p[0] for p in pairs), sorted(p[1] for p in pairs)
            off = [("mean", sum(took) / len(took), sum(should) / len(should))]
            off += [(f"p{q}", took[len(took) * q // 100], should[len(should) * q // 100]) for q in (50, 90)]
            service = 1e3 * sum(services) / len(services)
            print(f"load {load}: {len(sent) - len(pairs)} of {len(sent)} unanswered, work of {service:.2f} ms")
            for name, is_, should_be in off:
                # Of the time at the server: the path is no part of what is checked here.
                error = 100 * (is_ - should_be) / (should_be - path)
                print(f"load {load} {name}: {is_ * 1e3:.2f} ms, should be {should_be * 1e3:.2f}, off by {error:.2f} %")
            sys.stdout.flush()


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(int(sys.argv[2]))
    else:
        name, workers, kind, mean, path, seconds = sys.argv[2:]
        ask(name, int(workers), kind, float(mean), float(path), float(seconds))
    os._exit(0)
