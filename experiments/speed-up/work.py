"""Programs with 1, 2, 4 and 8 workers: writes down how long each took, and prints by how much more workers were faster.

work.py REPETITIONS [PROGRAM,… [WORKERS,…]]: each in /out/PROGRAM-WORKERS, a line a repetition: when it began, s, and how
long it took, s.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).parent
WORK = pathlib.Path("/tmp/work")
# Each program's parts take as long as one another, so that workers can share them evenly.
PARTS = 16
REQUESTS = 160

NGINX = """
worker_processes {workers};
daemon off;
pid /tmp/work/nginx.pid;
error_log /tmp/work/nginx.log;
events {{ worker_connections 64; }}
http {{
    access_log off;
    client_body_temp_path /tmp/work; proxy_temp_path /tmp/work; fastcgi_temp_path /tmp/work;
    uwsgi_temp_path /tmp/work; scgi_temp_path /tmp/work;
    gzip on; gzip_types *; gzip_comp_level 9;
    server {{ listen 127.0.0.1:8080 reuseport; root /tmp/work; }}
}}
"""


def run(*command, **more):
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL, cwd=WORK, **more)


def requests(port, page):
    """So many by 16 connections, each of which asks again as soon as it has its answer."""
    run("h2load", "--h1", "-H", "Accept-Encoding: gzip", "-n", REQUESTS, "-c", 16, f"http://127.0.0.1:{port}/{page}")


def with_server(port, command, ask, env=None):
    """How long `ask` takes while `command` serves that port: when it began, and seconds."""
    server = subprocess.Popen([str(word) for word in command], cwd=WORK, env={**os.environ, **(env or {})},
                              stdout=subprocess.DEVNULL)
    try:
        while subprocess.run(["sh", "-c", f"exec 3<>/dev/tcp/127.0.0.1/{port}"], executable="/bin/bash",
                             stderr=subprocess.DEVNULL).returncode:
            time.sleep(0.05)
        return timed(ask)
    finally:
        server.terminate()
        server.wait()


def timed(what):
    begun, then = time.time(), time.monotonic()
    what()
    return begun, time.monotonic() - then


def zstd(workers):
    return timed(lambda: run("zstd", "-q", "-f", "-9", "-B512KiB", f"-T{workers}", "words", "-o", "words.zst"))


def xz(workers):
    return timed(lambda: run("xz", "-k", "-f", "-2", "--block-size=128KiB", f"-T{workers}", "words"))


def sort(workers):
    return timed(lambda: run("sort", f"--parallel={workers}", "-S16M", "-o", "sorted", "words"))


def make(workers):
    return timed(lambda: run("make", "-s", "-B", f"-j{workers}", "all"))


def java(workers):
    return timed(lambda: run("java", "-XX:+UseSerialGC", "-cp", WORK, "Pool", workers))


def go(workers):
    return with_server(8081, [WORK / "serve", "8081"], lambda: requests(8081, "hash"), {"GOMAXPROCS": str(workers)})


def nginx(workers):
    (WORK / "nginx.conf").write_text(NGINX.format(workers=workers))
    return with_server(8080, ["nginx", "-c", WORK / "nginx.conf"], lambda: requests(8080, "page"))


def redis(workers):
    """It serves its clients by one thread, however many threads those are."""
    ask = ["redis-benchmark", "-p", 6380, "-q", "-t", "set", "-n", 10_000, "-c", 16, "--threads", workers]
    return with_server(6380, ["redis-server", "--port", "6380", "--save", ""], lambda: run(*ask))


def lock(kind, percent):
    """Threads that hold one lock for so much of their work."""
    return lambda workers: timed(lambda: run(WORK / "locks", kind, workers, percent))


PROGRAMS = {
    "zstd": zstd, "xz": xz, "sort": sort, "make": make, "java": java, "go": go, "nginx": nginx, "redis": redis,
    **{f"{kind}-{percent}": lock(kind, percent) for kind in ("mutex", "spin") for percent in (1, 10, 50)},
}


def prepare(programs):
    """What they work on: words to compress and to sort, and a program of as many files as there are parts."""
    WORK.mkdir(exist_ok=True)
    with open(WORK / "words", "w") as words:
        for number in range(200_000):
            print(number * number % 99991, "sorted by", number % 613, file=words)
    (WORK / "page").write_text((WORK / "words").read_text()[:60_000])
    for number in range(PARTS):
        with open(WORK / f"part{number}.c", "w") as part:
            for function in range(10):
                print(f"double f{number}_{function}(const double *x, int n) {{ double s = {function};", file=part)
                print("for (int i = 0; i < n; i++) s = s * x[i] + s / (1 + x[i]); return s; }", file=part)
    parts = " ".join(f"part{number}.o" for number in range(PARTS))
    (WORK / "Makefile").write_text(f"all: {parts}\n%.o: %.c\n\tgcc -O1 -c -o $@ $<\n")
    if any("mutex" in name or "spin" in name for name in programs):
        run("gcc", "-O1", "-pthread", HERE / "locks.c", "-o", WORK / "locks")
    if "java" in programs:
        run("javac", "-d", WORK, HERE / "Pool.java")
    if "go" in programs:
        # Where its own archive is unpacked it is in no node's PATH.
        compiler = shutil.which("go", path=os.environ["PATH"] + ":/usr/local/go/bin") or "go"
        run(compiler, "build", "-o", WORK / "serve", HERE / "serve.go", env={**os.environ, "GOCACHE": "/tmp/work/go"})


def main():
    repetitions = int(sys.argv[1])
    programs = sys.argv[2].split(",") if len(sys.argv) > 2 else list(PROGRAMS)
    workers = [int(number) for number in sys.argv[3].split(",")] if len(sys.argv) > 3 else [1, 2, 4, 8]
    prepare(programs)
    took = {}
    for _ in range(repetitions):
        for name in programs:
            for number in workers:
                took.setdefault((name, number), []).append(PROGRAMS[name](number))
    out = pathlib.Path("/out")
    for (name, number), times in took.items():
        (out / f"{name}-{number}").write_text("".join(f"{begun:.6f} {seconds:.6f}\n" for begun, seconds in times))
    for name in programs:
        least = [min(seconds for _, seconds in took[name, number]) for number in workers]
        print(f"{name}:", *(f"{number} workers {least[0] / s:.2f} times" for number, s in zip(workers, least)), flush=True)


main()
