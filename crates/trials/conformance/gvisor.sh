# program: gVisor (its ptrace platform)
# packages: runsc python3
# A kernel of its own, in a filter of its own, that waits by Linux's clocks, and counts the processor's cycles.
exec runsc --root="$PWD/state" --platform=ptrace --network=none --ignore-cgroups do /usr/bin/python3 -c '
import time
s = time.monotonic(); time.sleep(0.4); print(400, int((time.monotonic() - s) * 1000), "sleep", flush=True)
s = time.time()
while time.monotonic_ns() and time.time() < s + 0.2: pass
print(200, int((time.time() - s) * 1000), "until a date", flush=True)' </dev/null 2>&1 | cat
