"""application.py DATABASES: an application server. It asks one of so many databases, and hashes what it has read.

What is asked of a database that is away waits until it is back.
"""

import queue, sys, time

import pymysql
import tier

DATABASES = int(sys.argv[1])
ROWS = 500
AGAIN = 0.25
idle = {'database-%d' % n: queue.LifoQueue() for n in range(1, DATABASES + 1)}


def connected(server):
    try:
        return idle[server].get_nowait()
    except queue.Empty:
        return pymysql.connect(host=server, user='root', database='isaac', connect_timeout=2, autocommit=True)


def asked(server, what, draw):
    """Makes the reads and the writes of one request; returns what was read."""
    connection = connected(server)
    read = []
    with connection.cursor() as cursor:
        for _ in range(what['reads']):
            cursor.execute('select left(body, %s) from facts where n = %s', (what['bytes'], draw.randint(1, ROWS)))
            read.append(cursor.fetchone()[0])
        for _ in range(what['writes']):
            row = draw.randint(1, ROWS)
            cursor.execute('replace into notes values (%s, %s)', (row, '%x' % (row % 16) * what['write-bytes']))
    # One that failed is not used again.
    idle[server].put(connection)
    return b''.join(read)


def work(name, what, draw, number):
    server = 'database-%d' % draw.randint(1, DATABASES)
    begun = time.monotonic()
    while True:
        try:
            read = asked(server, what, draw)
            break
        except pymysql.err.MySQLError:
            time.sleep(AGAIN)
    database = time.monotonic() - begun
    tier.hashed(read, what['application-hashes'])
    return read, 'application', {'database': database}


tier.serve(work)
