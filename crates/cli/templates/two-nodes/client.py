"""Asks for a page again and again: client.py URL SECONDS. /out/log: when each request began, how long it took (s)."""

import sys
import time
import urllib.request


def main():
    url, seconds = sys.argv[1], float(sys.argv[2])
    begun, count = time.time(), 0
    with open("/out/log", "w") as log:
        while time.time() < begun + seconds:
            at = time.time()
            with urllib.request.urlopen(url, timeout=10) as answer:
                answer.read()
            print(f"{at:.6f} {time.time() - at:.6f}", file=log)
            count += 1
    print(f"{count / (time.time() - begun):.2f} requests a second")


main()
