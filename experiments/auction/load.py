"""load.py THINK WARM SECONDS: as many users of the auction as SESSIONS says, each of which asks for page after page.

Which page follows which says transitions.json; before each a user thinks, for THINK seconds in the mean. After WARM
seconds it counts for SECONDS what is answered: /out/log gets when each of these requests began and how long it took, in
us, and for which page it was. They ask the web server of this node's number; the connection is a new one each time.
"""

import json, os, random, socket, sys, threading, time, urllib.parse

THINK, WARM, SECONDS = map(float, sys.argv[1:4])
SESSIONS = int(os.environ['SESSIONS'])
SERVER = socket.gethostname().replace('load', 'web')
USERS, ITEMS, CATEGORIES = 2000, 2000, 20
WRITES = {'register', 'sell', 'bid', 'buy', 'comment'}
TRANSITIONS = json.load(open('/srv/transitions.json'))


class Session:
    def __init__(self, number):
        self.name = '%s-%d' % (socket.gethostname(), number)
        self.draw = random.Random(self.name)
        self.made = 0
        me = self.draw.randint(1, USERS)
        self.login = {'nickname': 'user%d' % me, 'password': 'password%d' % me}

    def asks(self, page):
        """The parameters of a page."""
        draw, asks = self.draw, {'page': page}
        self.made += 1
        if page == 'register':
            asks |= {'nickname': '%s-%d' % (self.name, self.made), 'password': 'new', 'region': draw.randint(0, 61)}
        elif page in ('search', 'sell'):
            # Earlier pages of a category are looked at more often.
            asks |= {'category': draw.randint(1, CATEGORIES), 'from': min(int(draw.expovariate(1)), 4)}
        if page in ('item', 'bids', 'bid', 'buy', 'comment'):
            asks['item'] = draw.randint(1, ITEMS)
        if page in ('user', 'comment'):
            asks['user'] = draw.randint(1, USERS)
        if page in ('sell', 'bid', 'buy', 'comment', 'about'):
            asks |= self.login
        if page == 'sell':
            asks |= {'name': 'Item of ' + self.name, 'price': draw.randint(1, 100)}
            asks['description'] = 'It is as good as new. ' * 20
        if page == 'comment':
            asks |= {'rating': draw.randint(-2, 2), 'comment': 'A comment of some length. ' * 8}
        return asks

    def ask(self, page):
        date, begun = time.time(), time.monotonic()
        text = urllib.parse.urlencode(self.asks(page))
        kind = 'write' if page in WRITES else 'browse'
        answer = b''
        with socket.create_connection((ADDRESS, 80)) as connection:
            connection.sendall(('GET /%s.php?%s HTTP/1.0\r\nHost: web\r\n\r\n' % (kind, text)).encode())
            while more := connection.recv(65536):
                answer += more
        right = answer.startswith(b'HTTP/1.1 200') and answer.endswith(b'</html>')
        if not right:
            print(page, answer[:300], answer[-300:], file=sys.stderr)
        # The list is only appended to: threads need no lock for that.
        answered.append((date, time.monotonic() - begun, page, right))

    def live(self):
        page = 'home'
        # Where the CPU is scarce, the thread that counts has its turn when the others are done.
        while time.time() < begun + SECONDS:
            time.sleep(self.draw.expovariate(1 / THINK))
            self.ask(page)
            after = TRANSITIONS[page]
            page, = self.draw.choices(list(after), after.values())


ADDRESS = socket.gethostbyname(SERVER)
answered = []
threading.stack_size(256 * 1024)
begun = time.time() + WARM
for number in range(SESSIONS):
    threading.Thread(target=Session(number).live, daemon=True).start()
time.sleep(WARM + SECONDS)
# A request counts in the second in which it was answered.
counted = [one for one in answered if begun <= one[0] + one[1] < begun + SECONDS]
with open('/out/log', 'w') as log:
    for date, took, page, _ in counted:
        print(round(date * 1e6), round(took * 1e6), page, file=log)
wrote = sum(page in WRITES for _, _, page, _ in counted)
print('%.3f requests a second' % (len(counted) / SECONDS))
wrong = sum(not right for _, _, _, right in answered)
print('%.2f %% of them wrote, %d were answered wrongly' % (100 * wrote / max(len(counted), 1), wrong), flush=True)
# Those that are under way are left.
os._exit(wrong > 0)
