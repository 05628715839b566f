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
# Number; when the request came and was done, by the server's clock, s; how long that took from when it was begun; how
# long the work took by the CPU's clock, and how long by that since the one before was done.
ANSWER = struct.Struct("!Iddddd")
SO_TIMESTAMPNS = 35
STAMP = struct.Struct("qq")  # s, ns
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
    asked.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    asked.bind(("", PORT))
    speed = loops_per_second()

    def answer():
        before = time.thread_time()
        while True:
            message, [(_, _, stamp)], _, client = asked.recvmsg(64, 64)
            begun, cpu = time.time(), time.thread_time()
            number, length = ASK.unpack(message)
            work(int(length * speed))
            done, by_cpu = time.time(), time.thread_time()
            seconds, ns = STAMP.unpack(stamp)
            times = (seconds + ns / 1e9, done, done - begun, by_cpu - cpu, by_cpu - before)
            before = by_cpu
            asked.sendto(ANSWER.pack(number, *times), client)

    others = [multiprocessing.get_context("fork").Process(target=answer) for _ in range(workers)]
    for other in others:
        other.start()
    ready = socket.create_server(("", PORT))
    print(f"{workers} workers, each {speed:.0f} loops a second", flush=True)
    while True:
        ready.accept()[0].close()


def expected(arrivals, services, workers):
    """When each is done: whoever came first is served first, by whichever worker is free first."""
    free = [0.0] * workers
    for at, service in zip(arrivals, services):
        done = max(at, heapq.heappop(free)) + service
        heapq.heappush(free, done)
        yield done


def compare(load, where, times):
    """Prints by how much times are off; each comes with what it should be."""
    is_, should = (sorted(column) for column in zip(*times))
    both = [("mean", sum(is_) / len(times), sum(should) / len(times))]
    both += [(f"p{q}", is_[len(times) * q // 100], should[len(times) * q // 100]) for q in (50, 90)]
    for name, took, expects in both:
        error = 100 * (took - expects) / expects
        print(f"load {load} {where} {name}: {took * 1e3:.2f} ms, should be {expects * 1e3:.2f}, off by {error:+.2f} %")


def ask(server, workers, kind, mean, path, seconds):
    """Asks for `seconds` at each of three loads of the server; `mean` service time and `path`, there and back, in s."""
    draw = random.Random(f"{kind}-{workers}")
    # Resolved once: a look-up would be part of the first time.
    server = (socket.gethostbyname(server), PORT)
    link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    link.bind(("", PORT + 1))
    came, services = {}, []

    def listen():
        while True:
            number, arrived, done, clock, cpu, since = ANSWER.unpack(link.recv(64))
            # Where several work at once, none sees by the clock for how long it did. What a server does besides, it does
            # while it could serve the next.
            took = clock if workers == 1 else services[number]
            came[number] = (time.monotonic(), arrived, done, took * since / cpu)

    threading.Thread(target=listen, daemon=True).start()
    loads = {}
    for load in [0.3, 0.6, 0.8]:
        came.clear()
        services.clear()
        sent = []
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
        loads[load] = (sent, dict(came))
    with open("/out/log", "w") as log:
        for load, (sent, came) in loads.items():
            answered = sorted((times[1], number) for number, times in came.items())
            arrived = [at for at, _ in answered]
            services = [came[number][3] for _, number in answered]
            at_server, at_client = [], []
            for (at, number), should in zip(answered, expected(arrived, services, workers)):
                heard, _, done, _ = came[number]
                at_server.append((done - at, should - at))
                at_client.append((heard - sent[number], should - at + path))
                took, expects = (1e6 * time for time in at_client[-1])
                log.write(f"{sent[number]:.6f}\t{load}\t{took:.0f}\t{expects:.0f}\n")
            service = 1e3 * sum(services) / len(services)
            print(f"load {load}: {len(sent) - len(came)} of {len(sent)} unanswered, work of {service:.2f} ms")
            compare(load, "at the server", at_server)
            compare(load, "at the client", at_client)
            sys.stdout.flush()


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(int(sys.argv[2]))
    else:
        name, workers, kind, mean, path, seconds = sys.argv[2:]
        ask(name, int(workers), kind, float(mean), float(path), float(seconds))
    os._exit(0)
