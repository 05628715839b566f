"""Serves requests for classes by HTTP: what the front end and the application server have in common.

A request is `GET /CLASS/NUMBER`. The number seeds all that is drawn for it, so that every run makes the same calls.
"""

import hashlib, http.client, http.server, json, random, socket, time

with open('/srv/classes.json') as file:
    CLASSES = json.load(file)


def hashed(data, rounds):
    """SHA-1 of the data, and of the hash again and again, so many times in all."""
    for _ in range(rounds):
        data = hashlib.sha1(data).digest()
    return data


def call(server, path):
    """Asks another tier; its answer, and what it says of how long it took, by tier and in seconds."""
    connection = http.client.HTTPConnection(server)
    try:
        connection.request('GET', path)
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise RuntimeError('%s answers %s with %d: %r' % (server, path, answer.status, body[:200]))
        return body, json.loads(answer.getheader('X-Times'))
    finally:
        connection.close()


def serve(work):
    """Listens for ever. `work(class, draw, number)` returns an answer, and the time of others, by tier."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            begun = time.monotonic()
            if self.path == '/health':
                return self.answer(200, b'', {})
            name, number = self.path[1:].split('/')
            # Another server draws something else for the same number.
            draw = random.Random('%s %s' % (number, socket.gethostname().rstrip('0123456789')))
            body, own, others = work(name, CLASSES[name], draw, number)
            elsewhere = sum(others.values())
            self.answer(200, body, {**others, own: time.monotonic() - begun - elsewhere})

        def answer(self, status, body, times):
            self.send_response(status)
            self.send_header('Content-Length', str(len(body)))
            self.send_header('X-Times', json.dumps(times))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    class Server(http.server.ThreadingHTTPServer):
        request_queue_size = 128

    Server(('', 80), Handler).serve_forever()
