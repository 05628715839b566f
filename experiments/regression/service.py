"""A service: each request counts what one of 3,000 customers has ordered, in a table of 60,000 rows."""

import os
import queue
import socket
import sqlite3
import threading
import time

SLEEP = float(os.environ["SLEEP"])
INDEX = os.environ["INDEX"] == "1"
POOL = int(os.environ["POOL"])


FILE = "/tmp/orders"


def make_table():
    with sqlite3.connect(FILE) as made:
        made.execute("CREATE TABLE orders (customer INTEGER, price INTEGER)")
        made.executemany("INSERT INTO orders VALUES (?, ?)", ((n % 3000, n) for n in range(60000)))
        if INDEX:
            made.execute("CREATE INDEX of_customer ON orders (customer)")


def answer(connection, table):
    with connection, connection.makefile("rwb") as stream:
        customer = int(stream.readline())
        # As a call of another service would.
        time.sleep(0.02 + SLEEP)
        count, price = table.execute("SELECT count(*), sum(price) FROM orders WHERE customer = ?", (customer,)).fetchone()
        stream.write(b"%d %d\n" % (count, price))


def worker(waiting):
    table = sqlite3.connect(FILE)
    while True:
        answer(waiting.get(), table)


def main():
    make_table()
    waiting = queue.Queue()
    for _ in range(POOL):
        threading.Thread(target=worker, args=(waiting,), daemon=True).start()
    listening = socket.create_server(("", 8000), backlog=128)
    while True:
        waiting.put(listening.accept()[0])


main()
