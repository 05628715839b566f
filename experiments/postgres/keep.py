"""keep.py CONNECTIONS SERVER: adds rows to a database, and remembers which of them it has acknowledged.

Each connection adds the rows 1, 2, 3, ... of its own, the next when the one before is acknowledged. Whenever the
server has been away, all rows that were acknowledged have to be there again; the one that was under way may be. What
this knows is on another machine than the database.
"""

import glob, os, select, subprocess, sys, threading, time

PATIENCE = 5.0
BIN = max(glob.glob('/usr/lib/postgresql/*/bin'), key=lambda path: int(path.split('/')[4]))
lock = threading.Lock()
totals = {'acknowledged': 0, 'lost': 0, 'looks': 0}


def say(*words):
    with lock:
        print(*words, flush=True)


def note(what, more):
    with lock:
        totals[what] += more


class Gone(Exception):
    """The server, or what it was asked."""


class Database:
    """psql, which is told one statement at a time, and answers with one line."""

    def __init__(self, server):
        command = [BIN + '/psql', '-XqAt', '-v', 'ON_ERROR_STOP=1', '-h', server, '-U', 'test', 'postgres']
        environment = dict(os.environ, PGCONNECT_TIMEOUT='2')
        self.psql = subprocess.Popen(
            command, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env=environment)

    def ask(self, statement):
        try:
            self.psql.stdin.write(statement.encode() + b';\n')
        except OSError:
            raise Gone from None
        answer = b''
        while not answer.endswith(b'\n'):
            if not select.select([self.psql.stdout], [], [], PATIENCE)[0]:
                raise Gone
            more = os.read(self.psql.stdout.fileno(), 4096)
            if not more:
                raise Gone
            answer += more
        return answer.decode().strip()

    def close(self):
        self.psql.kill()
        self.psql.stdin.close()
        self.psql.stdout.close()
        self.psql.wait()


def keep(connection, server):
    """Adds rows and looks for them, to the end."""
    series, acknowledged = connection, 0
    while True:
        database = Database(server)
        try:
            database.ask("create table if not exists kept (series int, n int, primary key (series, n)); select 'made'")
            found = 'select count(*) from kept where series = %d and n between 1 and %d' % (series, acknowledged)
            missing = acknowledged - int(database.ask(found))
            note('looks', 1)
            note('lost', missing)
            say('connection', connection, 'acknowledged', acknowledged, 'missing', missing)
            if missing:
                # What is lost is not to be missed once more.
                series, acknowledged = series + 1000, 0
            n = int(database.ask('select coalesce(max(n), 0) from kept where series = %d' % series))
            while True:
                n += 1
                database.ask('insert into kept values (%d, %d) returning n' % (series, n))
                acknowledged = n
                note('acknowledged', 1)
        except Gone:
            time.sleep(0.05)
        finally:
            database.close()


connections, server = int(sys.argv[1]), sys.argv[2]
for connection in range(1, connections + 1):
    threading.Thread(target=keep, args=(connection, server), daemon=True).start()
while True:
    say(*('%s %d' % total for total in totals.items()))
    time.sleep(0.2)
