"""What queues of tc do to datagrams, by the clocks of those who send and receive them: for queues.bash.

    queues.py receive              the far end: a line for each datagram, "NAME NUMBER SENT RECEIVED", in s
    queues.py send TO [WORD]…      gives eth0 (and lo) one queue after the other, and sends through it; of queues, only
                                   those whose names contain one of the words. Prints such lines of what it gets over lo
    queues.py judge NATIVE NODES   from directories with `sent` and `received` of the two: what came of each queue
                                   natively, and in nodes that a link with a delay of 10 ms joins; exit code 1 if that
                                   differs

Datagrams are 1,250 bytes long on the wire. Their rate is twice that of the queue, for 2 s.
"""
import socket
import struct
import subprocess
import sys
import threading
import time

LINK_MS = 10
MTU, HEADERS = 1250, 42
# Offered; the queues let half of it pass.
BITS_S = 2e6
LEAF = ('tc qdisc add dev {} root handle 1: htb default 10',
        'tc class add dev {} parent 1: classid 1:10 htb rate 1mbit burst 5k')
# Name, how it is judged, on which interface, commands.
QUEUES = [
    ('netem-eth0', 'delay', 'eth0', ['tc qdisc add dev {} root netem delay 50ms']),
    ('netem-lo', 'delay', 'lo', ['tc qdisc add dev {} root netem delay 50ms']),
    ('netem-rate', 'rate', 'eth0', ['tc qdisc add dev {} root netem rate 1mbit limit 50']),
    ('tbf', 'rate', 'eth0', ['tc qdisc add dev {} root tbf rate 1mbit burst 5k latency 300ms']),
    ('htb', 'rate', 'eth0', [*LEAF]),
    ('hfsc', 'rate', 'eth0', ['tc qdisc add dev {} root handle 1: hfsc default 10',
                              'tc class add dev {} parent 1: classid 1:10 hfsc sc rate 1mbit ul rate 1mbit']),
    ('fq', 'rate', 'eth0', ['tc qdisc add dev {} root fq maxrate 1mbit flow_limit 30']),
    ('police', 'rate', 'eth0', ['tc qdisc add dev {} root handle 1: prio', 'tc filter add dev {} parent 1: matchall '
                                'action police rate 1mbit burst 10k conform-exceed drop']),
    ('cake', 'rate', 'eth0', ['tc qdisc add dev {} root cake bandwidth 1mbit besteffort']),
    ('codel', 'drops', 'eth0', [*LEAF, 'tc qdisc add dev {} parent 1:10 codel limit 1000']),
    ('fq_codel', 'drops', 'eth0', [*LEAF, 'tc qdisc add dev {} parent 1:10 fq_codel limit 1000']),
    ('codel-slow', 'drops', 'eth0', [*LEAF, 'tc qdisc add dev {} parent 1:10 codel limit 1000 target 20ms '
                                     'interval 400ms']),
    ('pie', 'told', 'eth0', [*LEAF, 'tc qdisc add dev {} parent 1:10 pie limit 1000']),
]
# So many datagrams one by one, to see a delay.
SINGLE = 20


def receive(port, lines, until=None):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    s.bind(('', port))
    while not (until and until.is_set()):
        got = s.recv(2000)
        now = time.monotonic()
        name, number, sent = struct.unpack_from('16sid', got)
        if not number < 0:
            print(name.rstrip(b'\0').decode(), number, '%.6f' % sent, '%.6f' % now, file=lines, flush=True)


def run(command):
    subprocess.run(command.split(), check=True)


def send(to, words):
    threading.Thread(target=receive, args=(6000, sys.stdout), daemon=True).start()
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 22)
    for name, how, interface, commands in QUEUES:
        if words and not any(word in name for word in words):
            continue
        where = (to, 5000) if interface == 'eth0' else ('127.0.0.1', 6000)
        # Whom to send to is known, and who receives has come to it.
        s.sendto(struct.pack('16sid', b'', -1, 0), where)
        time.sleep(0.2)
        for command in commands:
            run(command.format(interface))
        datagram = lambda n: struct.pack('16sid', name.encode(), n, time.monotonic()).ljust(MTU - HEADERS)
        if how == 'delay':
            for n in range(SINGLE):
                # A node that computes is ahead of the run when it sends.
                until = time.monotonic() + 0.005
                while time.monotonic() < until:
                    pass
                s.sendto(datagram(n), where)
                time.sleep(0.1)
        else:
            step, began = 8 * MTU / BITS_S, time.monotonic()
            for n in range(int(2 / step)):
                until = began + n * step
                if (left := until - time.monotonic()) > 0:
                    time.sleep(left)
                s.sendto(datagram(n), where)
        # What has left the queue comes through, and what waits in it is dropped.
        time.sleep(0.2)
        run(f'tc qdisc del dev {interface} root')
        time.sleep(0.1)


def read(directory):
    all = {}
    for file in 'sent', 'received':
        for line in open(f'{directory}/{file}'):
            name, number, sent, received = line.split()
            all.setdefault(name, []).append((int(number), float(sent), float(received)))
    return all


def found(how, got):
    """Of delays least, median and most, ms; a rate, Mbit/s; when the first was dropped, ms, and how many were."""
    if how == 'delay':
        took = sorted(1e3 * (received - sent) for _, sent, received in got)
        return [took[0], took[len(took) // 2], took[-1]] if len(took) == SINGLE else None
    got = sorted(got, key=lambda one: one[2])
    first = got[0][2]
    if how == 'rate':
        # Of the time in which the queue was never empty, once its burst is gone.
        within = [one[2] for one in got if 0.4 <= one[2] - first <= 1.9]
        return [8e-6 * MTU * (len(within) - 1) / (within[-1] - within[0])] if len(within) > 9 else None
    numbers = [one[0] for one in got]
    gap = next((n for n in range(1, len(got)) if numbers[n] != numbers[n - 1] + 1), None)
    lost = max(numbers) + 1 - len(numbers)
    return [1e3 * (got[gap][2] - first), lost] if gap else None


def right(how, natively, nodes, link):
    """Whether what came of a queue in nodes is right, and natively."""
    if how == 'delay':
        # None is early; the machine makes some late, and less so where a ms of the nodes is ten of its own.
        return natively[0] >= 50 and nodes[0] >= 50 + link - 0.5 and nodes[1] <= natively[1] + link + 5
    if how == 'rate':
        return abs(natively[0] - 1) <= 0.1 and abs(nodes[0] / natively[0] - 1) <= 0.05
    if how == 'drops':
        # The first two are due after an interval, and `target`'s worth of queue.
        return abs(nodes[0] / natively[0] - 1) <= 0.25 and abs(nodes[1] / natively[1] - 1) <= 0.25
    return True


def judge(native, nodes):
    natively, here, bad = read(native), read(nodes), False
    show = lambda what: ' '.join('%.2f' % value for value in what) if what else 'nothing'
    for name, how, interface, _ in QUEUES:
        if name not in natively and name not in here:
            continue
        a, b = (found(how, all[name]) if all.get(name) else None for all in (natively, here))
        holds = bool(a and b) and right(how, a, b, LINK_MS if interface == 'eth0' else 0)
        bad |= not holds
        print('%-7s %-11s %-6s natively %-20s nodes %s' % ('right' if holds else 'WRONG', name, how, show(a), show(b)))
    return int(bad or not natively)


if __name__ == '__main__':
    verb, rest = sys.argv[1], sys.argv[2:]
    if verb == 'receive':
        receive(5000, sys.stdout)
    elif verb == 'send':
        send(rest[0], rest[1:])
    else:
        sys.exit(judge(*rest))
