"""Adds rows to an SQLite database; says which it has added, and at first which it finds.

What it says is kept by the run, not by the node's disk.
"""

import sqlite3

database = sqlite3.connect('/srv/rows', isolation_level=None)
database.execute('pragma synchronous = extra')
sound, = database.execute('pragma integrity_check').fetchone()
database.execute('create table if not exists rows (n integer primary key)')
count, last = database.execute('select count(*), coalesce(max(n), 0) from rows').fetchone()
print('found', count, last, sound, flush=True)
while True:
    last += 1
    database.execute('insert into rows values (?)', (last,))
    print('added', last, flush=True)
