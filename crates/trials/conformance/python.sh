# program: CPython
# packages: python3
exec python3 - <<'P'
import asyncio, queue, select, socket, threading, time
def wait(name, f):
    s = time.monotonic()
    try: f()
    except (TimeoutError, queue.Empty, asyncio.TimeoutError): pass
    print(200, int((time.monotonic() - s) * 1000), name)
wait('time.sleep', lambda: time.sleep(.2))
wait('Event.wait', lambda: threading.Event().wait(.2))
wait('queue.get', lambda: queue.Queue().get(timeout=.2))
wait('select', lambda: select.select([], [], [], .2))
wait('asyncio.sleep', lambda: asyncio.run(asyncio.sleep(.2)))
def receive():
    a, b = socket.socketpair(); a.settimeout(.2); a.recv(1)
wait('socket time-out', receive)
P
