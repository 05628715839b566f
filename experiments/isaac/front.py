"""front.py APPLICATIONS: a front end server. It calls so many application servers, and hashes what they answer."""

import sys

import tier

APPLICATIONS = int(sys.argv[1])


def work(name, what, draw, number):
    answers, times = [], {'application': 0, 'database': 0}
    for call in range(what['calls']):
        server = 'application-%d' % draw.randint(1, APPLICATIONS)
        body, took = tier.call(server, '/%s/%s.%d' % (name, number, call))
        answers.append(body)
        for who in times:
            times[who] += took[who]
    return tier.hashed(b''.join(answers), what['front-hashes']), 'front', times


tier.serve(work)
