"""Small diagnosed runs, a page made from them, and a real browser to open it."""

import pytest
from playwright.sync_api import sync_playwright
from tools.ensure_browser import ADVICE, find_browser

from recombine.report.collect import collect, page_parts
from recombine.report.page import write_report
from recombine.runs.config import RunConfig
from recombine.runs.store import Store

TINY = ["scene.factors.x=8", "scene.factors.y=7", "holdout.lo=2", "holdout.hi=5", "decoder.kind=mlp",
        "decoder.width=16", "training.steps=30"]  # fmt: skip


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    """Two diagnosed runs of one seed each and a second seed of the first."""
    store = Store(tmp_path_factory.mktemp("store") / "runs")
    wanted = [
        RunConfig.parse([*TINY, *more]) for more in (["seed=0"], ["training.examples.single_factor={}"], ["seed=1"])
    ]
    for run in store.train(wanted, progress=False):
        run.diagnose(parts=page_parts(), progress=False)
    return store


@pytest.fixture(scope="session")
def runs(store):
    """The run on bumps and the one on bumps and stripes."""
    found = [store.load(name) for name in store.ids()]
    return [
        next(r for r in found if r.config.seed == 0 and ("single_factor" in r.config.training["examples"]) == s)
        for s in (False, True)
    ]


@pytest.fixture(scope="session")
def report(runs, tmp_path_factory):
    """A page of the two runs."""
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_report(collect([f"baseline={runs[0].path}", f"stripes={runs[1].path}"]), path)
    return path


@pytest.fixture(scope="session")
def chromium():
    path = find_browser()
    if path is None:
        pytest.fail(ADVICE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture
def visit(chromium):
    """Open a file; afterwards no page may have logged an error or asked for anything but itself."""
    contexts, wrong = [], []

    def asked(request):
        if not request.url.startswith(("file:", "blob:", "data:")) or request.url.count(".html") == 0:
            wrong.append(f"request: {request.url[:200]}")

    def logged(message):  # reading pixels back, as these tests do, draws a hint about speed
        if message.type in ("error", "warning") and "willReadFrequently" not in message.text:
            wrong.append(f"{message.type}: {message.text}")

    def go(path, fragment="", *, ready=True, width=1100, **options):
        context = chromium.new_context(viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.on("console", logged)
        page.on("pageerror", lambda error: wrong.append(f"exception: {error}"))
        page.on("request", asked)
        page.goto(path.as_uri() + fragment)
        if ready:
            page.wait_for_selector("html[data-ready]", state="attached")
        return page

    yield go
    for context in contexts:
        context.close()
    assert wrong == []
