"""client.py CLASS CLIENTS REQUESTS THINK: so many clients, each of which makes so many requests, one after the other.

Before each they think, for THINK seconds in the mean. /out/log gets of each request, in us: when it began, how long it
took, the time in each tier (front end, application servers, databases), and when it was complete, counted from the
start of the clients.
"""

import json, random, socket, sys, threading, time

NAME, CLIENTS, REQUESTS, THINK = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
BALANCER = socket.gethostbyname('balancer')
lock = threading.Lock()
first = time.monotonic()


def ask(path):
    """The times in the tiers that answered, in seconds."""
    answer = b''
    with socket.create_connection((BALANCER, 80)) as connection:
        connection.sendall(b'GET %s HTTP/1.0\r\n\r\n' % path.encode())
        while more := connection.recv(65536):
            answer += more
    head = answer.partition(b'\r\n\r\n')[0].decode().split('\r\n')
    if not head[0].endswith(' 200 OK'):
        raise RuntimeError(answer[:300])
    times, = [line.partition(': ')[2] for line in head if line.lower().startswith('x-times: ')]
    return json.loads(times)


def client(number, log):
    me = '%s-%d' % (socket.gethostname(), number)
    draw = random.Random(me)
    for request in range(REQUESTS):
        time.sleep(draw.expovariate(1 / THINK))
        date, begun = time.time(), time.monotonic()
        times = ask('/%s/%s-%d' % (NAME, me, request))
        now = time.monotonic()
        row = [date, now - begun, times['front'], times['application'], times['database'], now - first]
        with lock:
            print(*(round(value * 1e6) for value in row), file=log, flush=True)


print('begins', flush=True)
with open('/out/log', 'w') as log:
    clients = [threading.Thread(target=client, args=(number, log)) for number in range(CLIENTS)]
    for one in clients:
        one.start()
    for one in clients:
        one.join()
with open('/out/log') as log:
    complete = len(log.readlines())
print(complete, 'complete', flush=True)
sys.exit(complete != CLIENTS * REQUESTS)
