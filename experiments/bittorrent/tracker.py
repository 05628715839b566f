"""tracker.py BYTES CLIENTS: the site that publishes a file of so many bytes; it ends when as many clients have it.

It describes the file (mktorrent), has opentracker introduce those who want it to one another, hands out the
description, and is told by each client that it is done. Nobody gets the file itself here but the seeder.
"""

import hashlib, http.server, os, random, subprocess, sys, threading

BYTES, CLIENTS = int(sys.argv[1]), int(sys.argv[2])
lock = threading.Lock()
done = 0
everybody = threading.Event()


def described():
    """The description of the file, and its hash as opentracker wants it."""
    os.chdir('/srv')
    with open('file', 'wb') as file:    # the seeder makes the same one
        file.write(random.Random(1).randbytes(BYTES))
    # Pieces of 32 KiB: as many as larger files have, so that the last of them do not decide.
    subprocess.run(['mktorrent', '-l', '15', '-d', '-o', 'file.torrent', '-a', 'http://tracker:6969/announce', 'file'],
                   check=True, stdout=subprocess.DEVNULL)
    with open('file.torrent', 'rb') as file:
        torrent = file.read()
    # `info` is the last key of the dictionary: its value is all between it and the end.
    return torrent, hashlib.sha1(torrent[torrent.index(b'4:info') + 6:-1]).hexdigest()


class Site(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        global done
        if self.path == '/file.torrent':
            self.answer(torrent, 'application/x-bittorrent')
        elif self.path == '/done':
            self.answer(b'', 'text/plain')
            with lock:
                done += 1
                print(done, 'have it', flush=True)
                if done == CLIENTS:
                    everybody.set()
        else:
            self.send_error(404)

    def answer(self, body, kind):
        self.send_response(200)
        self.send_header('Content-Type', kind)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


torrent, digest = described()
with open('/srv/allowed', 'w') as file:
    print(digest, file=file)
tracker = subprocess.Popen(['opentracker', '-p', '6969', '-P', '6969', '-w', '/srv/allowed', '-u', 'nobody'])
site = http.server.ThreadingHTTPServer(('', 80), Site)
threading.Thread(target=site.serve_forever, daemon=True).start()
everybody.wait()
tracker.terminate()
