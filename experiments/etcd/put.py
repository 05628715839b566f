"""put.py CONNECTIONS SECONDS MEMBER...: writes to etcd as fast as it acknowledges, over so many connections.

All ask the leader, through the JSON gateway: whom one asks would otherwise decide on a round trip, and elections are
left to chance. The first two seconds are for warming up and not counted; /out/log has when each other write began, and
how long it took until etcd said that it was committed, in us.
"""

import base64, http.client, json, socket, sys, threading, time

WARM_UP = 2.0
VALUE = base64.b64encode(b'x' * 256).decode()


def ask(connection, path, what):
    connection.request('POST', path, json.dumps(what), {'Content-Type': 'application/json'})
    answer = connection.getresponse()
    text = answer.read()
    if answer.status != 200:
        raise OSError('%s: %d %s' % (path, answer.status, text))
    return json.loads(text)


def leader(members):
    """The member that leads; members need a while to agree on one."""
    while True:
        for member in members:
            try:
                state = ask(http.client.HTTPConnection(member, 2379, timeout=1), '/v3/maintenance/status', {})
                if state.get('leader', '0') == state['header']['member_id']:
                    return member
            except OSError:
                pass
        time.sleep(0.1)


def write(member, name, begin, end, log):
    connection = http.client.HTTPConnection(member, 2379)
    n = 0
    while time.time() < end:
        key = base64.b64encode(b'%s-%d' % (name, n % 1000)).decode()
        begun = time.time()
        ask(connection, '/v3/kv/put', {'key': key, 'value': VALUE})
        took = time.time() - begun
        if begin <= begun < end:
            log.append((begun * 1e6, took * 1e6))
        n += 1


connections, seconds = int(sys.argv[1]), float(sys.argv[2])
member = leader(sys.argv[3:])
begin = time.time() + WARM_UP
log = []
names = [b'%s-%d' % (socket.gethostname().encode(), n) for n in range(connections)]
threads = [threading.Thread(target=write, args=(member, n, begin, begin + seconds, log)) for n in names]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
with open('/out/log', 'w') as file:
    for begun, took in sorted(log):
        file.write('%.0f %.0f\n' % (begun, took))
print('%.3f writes a second to %s' % (len(log) / seconds, member))
