"""register.py SECONDS MEMBER...: reads, writes and compares-and-sets registers, and prints what came of each.

Two threads for each member ask that one only. Registers are new ones every four seconds, so that what came of an
operation is unknown for few others. A line of the history, JSON, has the register, what was asked, the answer, and when
it was asked and answered, ns of CLOCK_MONOTONIC, which the whole run shares and no event sets off; without an end it
may happen at any time, or never.
"""

import base64, http.client, json, os, random, sys, threading, time

TIMEOUT = 1.0
SLOT = 4.0
SERIALIZABLE = os.environ['READS'] == 'serializable'


def code(text):
    return base64.b64encode(text.encode()).decode()


class Refused(Exception):
    """Nothing was done."""


def ask(member, path, what):
    connection = http.client.HTTPConnection(member, 2379, timeout=TIMEOUT)
    try:
        try:
            connection.connect()
        except OSError as e:
            raise Refused from e
        connection.request('POST', path, json.dumps(what), {'Content-Type': 'application/json'})
        answer = connection.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise OSError('%s: %d %s' % (path, answer.status, text))
        return json.loads(text)
    finally:
        connection.close()


def value_of(answer):
    kvs = answer.get('kvs', [])
    return base64.b64decode(kvs[0].get('value', '')).decode() if kvs else ''


def read(member, key):
    return value_of(ask(member, '/v3/kv/range', {'key': code(key), 'serializable': SERIALIZABLE}))


def write(member, key, value):
    ask(member, '/v3/kv/put', {'key': code(key), 'value': code(value)})


def cas(member, key, old, new):
    answer = ask(member, '/v3/kv/txn', {
        'compare': [{'key': code(key), 'target': 'VALUE', 'result': 'EQUAL', 'value': code(old)}],
        'success': [{'requestPut': {'key': code(key), 'value': code(new)}}],
    })
    return answer.get('succeeded', False)


def work(number, member, begin, end, history, numbers):
    known = {}
    n = 0
    while time.monotonic() < end:
        slot = int((time.monotonic() - begin) / SLOT)
        key = 'r%d-%d' % (slot, numbers.randrange(2))
        value = '%d.%d' % (number, n)
        n += 1
        op = numbers.choice(['read', 'read', 'write', 'cas'])
        if op == 'cas' and not known.get(key):
            op = 'read'
        line = {'client': number, 'key': key, 'op': op, 'from': time.monotonic_ns()}
        try:
            if op == 'read':
                line['output'] = known[key] = read(member, key)
            elif op == 'write':
                line['value'] = value
                write(member, key, value)
                known[key] = value
            else:
                line['old'], line['value'] = known[key], value
                line['done'] = cas(member, key, known[key], value)
                known[key] = value if line['done'] else ''
            line['to'] = time.monotonic_ns()
            history.append(line)
        except Refused:
            time.sleep(0.1)
        except (OSError, http.client.HTTPException):
            # A read that was not answered says nothing; of all else nobody knows whether it was done.
            if op != 'read':
                history.append(line)
        time.sleep(numbers.uniform(0.01, 0.1))


members = sys.argv[2:]
begin = time.monotonic()
end = begin + float(sys.argv[1])
history = []
threads = [
    threading.Thread(target=work, args=(i, members[i % len(members)], begin, end, history, random.Random(i)))
    for i in range(2 * len(members))
]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for line in history:
    print(json.dumps(line))
print('%d done' % sum('to' in line for line in history))
print('%d unknown' % sum('to' not in line for line in history))
