#!/usr/bin/env python3
"""The page of `diorama serve` in Chromium: `make test-browser`. Takes the program, and a directory for pictures."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import expect, sync_playwright

EXPERIMENT = """
name: shop
tdf: 5
measure: 0s..
machines:
  server: { cpus: 2, speed: 0.3, memory: 128MiB }
  client: { cpus: 1, speed: 0.1, memory: 64MiB }
nodes:
  web: { machine: server, run: python3 -m http.server -d /usr/share 80, ready: { tcp: 80 } }
  client:
    count: 3
    machine: client
    after: [web]
    run: [sh, -c, "while sleep 0.5; do h2load --h1 -n 4 -c 1 --log-file=/out/last http://web/common-licenses/GPL-3 \
      >/dev/null; cat /out/last >>/out/log; done"]
switches: [core]
links:
  - { from: web, to: core, bandwidth: 10Mbit/s, delay: 1ms }
  - { from: "client-*", to: core, bandwidth: 3Mbit/s, delay: 5ms }
  - { from: web, to: client-1, name: backup, bandwidth: 1Mbit/s, delay: 20ms }
metrics: { latency: { nodes: "client-*", rows: /out/log, start: 1, value: 3, unit: us } }
ends: { limit: 600s }
"""

PATIENCE_MS = 120_000


def main():
    diorama, pictures = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    pictures.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as lab:
        os.mkdir(f"{lab}/lab")
        Path(lab, "lab/experiment.yaml").write_text(EXPERIMENT)
        server = subprocess.Popen(
            [diorama, "serve", "--port", "0", "--experiment", "lab"], cwd=lab, stdout=subprocess.PIPE, text=True)
        # On a machine of two cores a run has one, and most of the other: this takes its time.
        started = []
        start = lambda: started.append(subprocess.Popen(
            [diorama, "run", "lab"], cwd=lab, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        try:
            addresses = [server.stdout.readline().split()[0] for _ in range(2)]
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
                try:
                    tried(browser, addresses, start, pictures, lab)
                finally:
                    browser.close()
            server.send_signal(signal.SIGINT)
            assert server.wait(10) == 130
        finally:
            for process in (*started, server):
                if process.poll() is None:
                    process.terminate()
                    process.wait(60)


def events_of(lab):
    return Path(lab, "runs/shop/scaled/events.jsonl").read_text()


class Watched:
    """A window, and what its console complains of."""

    def __init__(self, browser, address, scheme="light"):
        self.context = browser.new_context(color_scheme=scheme, viewport={"width": 1280, "height": 900})
        self.complaints = []
        self.context.on("console", lambda said: self.complaints.append(said.text) if said.type == "error" else None)
        self.context.on("weberror", lambda wrong: self.complaints.append(str(wrong.error)))
        self.context.on("page", lambda page: page.set_default_timeout(PATIENCE_MS))
        self.page = self.context.new_page()
        expect.set_options(timeout=PATIENCE_MS)
        # As somebody types it: the browser says of such a request that no page made it.
        self.page.goto(address)

    def close(self):
        assert not self.complaints, self.complaints
        self.context.close()


def virtual_s(page):
    return float(re.search(r"virtual ([\d.]+)", page.locator("#times").inner_text()).group(1))


def place(page, node):
    return page.locator(f'#map g[data-name="{node}"]').get_attribute("transform")


def tried(browser, addresses, start, pictures, lab):
    everything, look = (Watched(browser, address) for address in addresses)
    page = everything.page
    told = lambda what: print(f"ok  {what}", flush=True)

    expect(page.locator("#none")).to_be_visible()
    start()
    expect(page.locator("#where")).to_contain_text("shop · scaled · TDF 5 · live", timeout=2 * PATIENCE_MS)
    expect(page.locator("#map circle.node")).to_have_count(4)
    expect(page.locator("#map rect.switch")).to_have_count(1)
    expect(page.locator("#map path.pipe")).to_have_count(10)
    expect(page.locator("#times")).to_contain_text("left of real time")
    first = virtual_s(page)
    page.wait_for_function(
        "first => parseFloat(document.getElementById('times').textContent.slice(8)) > first + 2", arg=first)
    told("a live run appears by itself, with its topology, and its virtual time goes on")

    page.wait_for_function("[...document.querySelectorAll('#map path.pipe')].some(line => line.style.stroke)")
    page.wait_for_function("[...document.querySelectorAll('#map path.cpu')].some(ring => ring.getAttribute('d'))")
    expect(page.locator("#nodes tbody tr")).to_have_count(4)
    expect(page.locator("#events")).to_contain_text("ready")
    told("links are coloured by their use, nodes have rings, events come")

    before = place(page, "web")
    box = page.locator('#map g[data-name="web"] circle').bounding_box()
    page.mouse.move(box["x"] + 15, box["y"] + 15)
    page.mouse.down()
    page.mouse.move(box["x"] + 95, box["y"] + 60, steps=5)
    page.mouse.up()
    moved = place(page, "web")
    assert moved != before, moved
    page.reload()
    expect(page.locator("#map circle.node")).to_have_count(4)
    assert place(page, "web") == moved, (place(page, "web"), moved)
    told("a node stays where it was dragged, also in a page that is loaded anew")

    page.screenshot(path=pictures / "live-light.png", full_page=True)
    dark = Watched(browser, addresses[0], "dark")
    expect(dark.page.locator("#map circle.node")).to_have_count(4)
    expect(dark.page.locator("#nodes tbody tr")).to_have_count(4)
    dark.page.screenshot(path=pictures / "live-dark.png", full_page=True)
    dark.close()

    expect(look.page.locator("#map circle.node")).to_have_count(4)
    expect(look.page.locator("#fault")).to_be_hidden()
    expect(look.page.get_by_role("button", name="Check")).to_be_hidden()
    by_force = "fetch('event?run=' + watched, { method: 'POST', body: 'do: end' }).then(answer => answer.status)"
    refused = look.page.evaluate(by_force)
    assert refused == 403, refused
    # The browser complains of that answer itself.
    look.complaints.clear()
    told("who may only look sees all of it, and has nothing happen")

    page.select_option("#target", "link client-2--core")
    page.get_by_role("button", name="down", exact=True).click()
    page.get_by_role("button", name="Now").click()
    expect(page.locator("#became")).to_contain_text("virtual seconds")
    expect(page.locator("#events")).to_contain_text("by-hand")
    assert "by-hand" in events_of(lab)
    page.locator("#words").fill("node: nobody, do: kill")
    page.get_by_role("button", name="Now").click()
    expect(page.locator("#became")).to_contain_text("nobody")
    everything.complaints[:] = [one for one in everything.complaints if "400" not in one]
    told("a link goes down by two clicks, and what is wrong is told")

    page.get_by_role("button", name="Check").click()
    expect(page.locator("#text")).to_have_value(EXPERIMENT)
    expect(page.locator("#judged")).to_have_text("It can be run here.")
    page.locator("#text").fill(EXPERIMENT.replace("64MiB", "much"))
    expect(page.locator("#places")).to_contain_text("line 7")
    page.screenshot(path=pictures / "check.png", full_page=True)
    page.get_by_role("button", name="line 7").click()
    told("an experiment is checked as it is typed")

    page.get_by_role("button", name="Live").click()
    page.locator("#words").fill("do: end")
    page.get_by_role("button", name="Now").click()
    expect(page.locator("#where")).to_contain_text("ended")
    page.get_by_role("button", name="Runs").click()
    expect(page.locator("#list tbody tr")).to_have_count(1)
    with everything.context.expect_page() as opened:
        page.get_by_role("link", name="report").click()
    expect(opened.value.locator("h1")).to_contain_text("shop")
    opened.value.reload()
    expect(opened.value.locator("h1")).to_contain_text("shop")
    told("the report opens, in a sandbox")
    runs(everything, look, pictures, lab, told)


def runs(everything, look, pictures, lab, told):
    page = everything.page
    # A second run to compare with: the same again.
    shutil.copytree(f"{lab}/runs/shop/scaled", f"{lab}/runs/shop/again")
    page.get_by_role("button", name="Look again").click()
    expect(page.locator("#list tbody tr")).to_have_count(2)
    compare = page.get_by_role("button", name="compare")
    compare.nth(0).click()
    expect(page.locator("#pick")).to_contain_text("is the base")
    with everything.context.expect_page() as opened:
        compare.nth(1).click()
    expect(opened.value.locator("h1")).to_contain_text("shop")
    expect(opened.value.locator("body")).to_contain_text("Whether to trust it")
    page.screenshot(path=pictures / "runs.png", full_page=True)
    opened.value.screenshot(path=pictures / "compare.png")
    told("two runs are compared by two clicks")
    everything.close()
    look.close()


if __name__ == "__main__":
    begun = time.monotonic()
    main()
    print(f"all as it should be, after {time.monotonic() - begun:.0f} s")
