"""A database: database.py PORT. Each request is one order more, which is on disk before it is answered.

/out/log: when each request began, and how long it took (s).
"""

import socket
import sqlite3
import sys
import time


def main():
    orders = sqlite3.connect("/srv/orders")
    orders.execute("CREATE TABLE orders (customer INTEGER, price INTEGER)")
    orders.execute("CREATE INDEX of_customer ON orders (customer)")
    listening = socket.create_server(("", int(sys.argv[1])), backlog=128)
    with open("/out/log", "w") as log:
        while True:
            connection = listening.accept()[0]
            at = time.time()
            with connection, connection.makefile("rwb") as stream:
                customer = int(stream.readline())
                with orders:
                    orders.execute("INSERT INTO orders VALUES (?, ?)", (customer, 7))
                count = orders.execute("SELECT count(*) FROM orders WHERE customer = ?", (customer,)).fetchone()[0]
                stream.write(b"%d\n" % count)
            print(f"{at:.6f} {time.time() - at:.6f}", file=log, flush=True)


main()
