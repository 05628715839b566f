"""Has a browser in its sandbox wait, and prints how long: "NOMINAL TOOK NAME", in ms.

    browser.py NAME COMMAND [ARGUMENT]…

The page comes from a server here, and tells it how long it has waited, by its own clock, in the window and in a worker.
Root is no user to browse as, so it runs as nobody. What renders pages must have filters that its parent has not.
"""
import glob, http.server, os, pwd, signal, subprocess, sys, tempfile, threading, time, urllib.parse

name, command = sys.argv[1], sys.argv[2:]
PAGE = b"""<!doctype html><title>waits</title><script>
const tell = (what, began) =>
  fetch('/told?' + new URLSearchParams({what, took: Math.floor(performance.now() - began)}));
addEventListener('load', () => {
  const began = performance.now();
  setTimeout(() => {
    tell('setTimeout', began);
    const worker = new Worker(URL.createObjectURL(new Blob([`
      const began = Date.now();
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 300);
      postMessage(Date.now() - began);`])));
    worker.onmessage = (e) => tell('a worker', performance.now() - e.data);
  }, 500);
});
</script>"""
told, done = {}, threading.Event()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        url = urllib.parse.urlparse(self.path)
        self.send_response(200)
        self.send_header('Content-Type', 'text/html')
        # Without these there is no memory that threads share.
        self.send_header('Cross-Origin-Opener-Policy', 'same-origin')
        self.send_header('Cross-Origin-Embedder-Policy', 'require-corp')
        self.end_headers()
        if url.path == '/told':
            said = dict(urllib.parse.parse_qsl(url.query))
            told[said['what']] = int(said['took'])
            if len(told) == 2:
                done.set()
        elif url.path == '/':
            self.wfile.write(PAGE)

    def log_message(self, *_):
        pass


def told_of(path, name):
    """A number that /proc tells of the process that the path is of."""
    lines = open(os.path.join(os.path.dirname(path), 'status')).read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name + ':'))


server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
nobody = pwd.getpwnam('nobody')
profile = tempfile.mkdtemp(prefix='browser.')
os.chown(profile, nobody.pw_uid, nobody.pw_gid)
url = f'http://127.0.0.1:{server.server_port}/'
command = [word.format(url=url, profile=profile) for word in command]
environment = {'PATH': os.environ['PATH'], 'HOME': profile, 'XDG_RUNTIME_DIR': profile, 'TMPDIR': profile}
log = open(os.path.join(profile, 'log'), 'wb')
browser = subprocess.Popen(command, user=nobody.pw_uid if os.getuid() == 0 else None, extra_groups=[], cwd=profile,
                           group=nobody.pw_gid if os.getuid() == 0 else None, env=environment, stdout=log, stderr=log,
                           start_new_session=True)
loaded = done.wait(60)
sandboxed = False
for path in glob.glob('/proc/[0-9]*/cmdline'):
    try:
        words = open(path, 'rb').read()
        if os.getsid(int(path.split('/')[2])) == browser.pid and (b'=renderer' in words or b'-contentproc' in words):
            parent = f'/proc/{told_of(path, "PPid")}/'
            sandboxed |= told_of(path, 'Seccomp_filters') > told_of(parent, 'Seccomp_filters')
    except OSError:
        pass
try:
    os.killpg(browser.pid, signal.SIGKILL)
except OSError:
    pass
browser.wait()
if not loaded:
    print(open(log.name, errors='replace').read()[-2000:], file=sys.stderr)
    sys.exit(f'{name} has not loaded the page: {told}')
if not sandboxed:
    sys.exit(f'{name} has no sandbox: what renders its pages has no more filters than what has started that')
print(500, told['setTimeout'], f'{name}, setTimeout')
print(300, told['a worker'], f'{name}, Atomics.wait in a worker')
