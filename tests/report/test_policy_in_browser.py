"""The page's second barrier: markup that got onto the page, and scripts that got to run, still reach nothing."""

import http.server
import re
import threading

import pytest
import torch
from playwright.sync_api import Error

import recombine as rc
from recombine.report.collect import Collected, Model
from recombine.report.page import build

ATTACKS = """
<script>window.hacked = "inline script"</script>
<script src="data:text/javascript,window.hacked='script from data'"></script>
<img src="AWAY/image" onerror="window.hacked = 'handler'">
<svg onload="window.hacked = 'svg handler'"></svg>
<iframe src="AWAY/frame"></iframe>
<iframe srcdoc="<script>parent.hacked = 'frame'</script>"></iframe>
<object data="AWAY/object"></object>
<link rel="stylesheet" href="AWAY/sheet">
<style>@import "AWAY/import"; body { background: url("AWAY/ground") }</style>
<base href="AWAY/">
<embed src="AWAY/embed">
<video src="AWAY/video" autoplay></video>
<svg><image href="AWAY/svg-image" width="1" height="1"></image><use href="AWAY/use#x"></use></svg>
<link rel="prefetch" href="AWAY/prefetch"><link rel="manifest" href="AWAY/manifest"><link rel="icon" href="AWAY/icon">
<script type="module">window.hacked = "module"</script>
<script type="importmap">{"imports": {"a": "AWAY/a.js"}}</script>
<form id="attack-form" action="AWAY/form"><input name="a"></form>
<a id="attack-link" href="javascript:window.hacked = 'link'">link</a>
"""
ACTS = {
    "form": "document.getElementById('attack-form').submit()",
    "link": "document.getElementById('attack-link').click()",
    "base": "document.querySelector('base') && document.baseURI.startsWith('http') && (window.hacked = 'base')",
    "fetch": "fetch('AWAY/fetch').catch(() => 0)",
    "beacon": "navigator.sendBeacon('AWAY/beacon', 'x')",
    "image": "new Image().src = 'AWAY/new-image'",
    "events": "new EventSource('AWAY/events')",
    "socket": "new WebSocket('AWAY/socket'.replace('http', 'ws'))",
    "worker": "new Worker('data:text/javascript,fetch(\\'AWAY/worker\\')')",
    "import": "import('data:text/javascript,window.hacked=3')",
    "font": "new FontFace('f', 'url(AWAY/font)').load()",
    "markup": "document.body.insertAdjacentHTML('beforeend', '<img onerror=hacked=1 src=x>'); window.hacked = 'markup'",
    "code": "setTimeout('window.hacked = 1', 0)",
    "script": "document.body.append(Object.assign(document.createElement('script'), {text: 'window.hacked = 2'}))",
    "named policy": "trustedTypes.createPolicy('other', {createHTML: (s) => s}); window.hacked = 'second policy'",
}


@pytest.fixture(scope="module")
def html():
    space = rc.FactorSpace(x=5, y=5)
    torch.manual_seed(0)
    found = rc.diagnose(torch.nn.Linear(2, 4), space, None, rc.holdouts.centre(space, 1, 3),
                        target=lambda v: v.repeat(1, 2), parts=["outputs"], progress=False)  # fmt: skip
    return build(Collected(models=[Model("linear", found)])).html


@pytest.fixture
def away():
    """A loopback address that nothing should reach, and the paths that it was asked for."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_error(404)

        do_POST = do_GET

        def log_message(self, *words):
            pass

    asked = []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    server.server_close()


def attacked(chromium, path, html, address):
    """What got through on a page with markup that should not be there: what it set, and where the page is then."""
    path.write_text(html.replace("</body>", ATTACKS.replace("AWAY", address) + "</body>"), encoding="utf-8")
    context = chromium.new_context()
    page = context.new_page()
    page.set_default_timeout(10_000)
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready]", state="attached")
    got = set()
    try:
        for name, act in ACTS.items():
            page.evaluate(f"() => {{ try {{ {act.replace('AWAY', address)} }} catch (error) {{ }} }}")
            page.wait_for_timeout(30)
            if page.evaluate("window.hacked") is not None:
                got.add(f"{name}: {page.evaluate('window.hacked')}")
                page.evaluate("() => { delete window.hacked }")
    except Error as error:  # the page is gone
        got.add(str(error))
    still = page.url
    context.close()
    return got, still


def test_nothing_gets_out(chromium, tmp_path, html, away):
    address, asked = away
    path = tmp_path / "page.html"
    got, still = attacked(chromium, path, html, address)
    assert (got, asked) == (set(), [])
    assert still.startswith(path.as_uri())


def test_these_attacks_would_work_without_the_policy(chromium, tmp_path, html, away):
    address, asked = away
    weak = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", html)
    assert weak != html
    got, _ = attacked(chromium, tmp_path / "page.html", weak, address)
    assert got
    assert len(asked) > 3


def test_the_policy_names_scripts_by_hash(html):
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)[1]
    sources = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert sources["default-src"] == "'none'"
    assert "unsafe" not in sources["script-src"]
    assert re.fullmatch(r"'sha256-[A-Za-z0-9+/]{43}='", sources["script-src"])
    assert sources["form-action"] == sources["base-uri"] == "'none'"
