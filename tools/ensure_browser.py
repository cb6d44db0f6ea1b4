"""See to it that the browser tests find a browser: install Chromium from the system's packages if there is none.

Never fails: where it cannot install one it says what to do, and the tests that need a browser fail with the same words.
"""

from __future__ import annotations

import os
import shutil
import subprocess

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge")
ADVICE = (
    "The browser tests need Chromium or Chrome on the PATH (or its path in RECOMBINE_BROWSER). On Debian or Ubuntu: "
    "apt-get install chromium. On Fedora: dnf install chromium. On macOS: brew install --cask google-chrome, then "
    "export RECOMBINE_BROWSER='/Applications/Google Chrome.app/Contents/MacOS/Google Chrome'."
)


def find_browser() -> str | None:
    """The browser's path; None if there is none."""
    given = os.environ.get("RECOMBINE_BROWSER")
    if given:
        return given if os.access(given, os.X_OK) else None
    return next((path for path in map(shutil.which, BROWSERS) if path), None)


def install() -> bool:
    """Install Chromium by apt-get, as root on Debian and its like; whether that worked."""
    if shutil.which("apt-get") is None or not hasattr(os, "geteuid") or os.geteuid() != 0:
        return False
    print("No browser was found: installing chromium with apt-get.", flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    words = ["install", "-y", "-qq", "--no-install-recommends", "chromium"]
    if subprocess.run(["apt-get", *words], env=environment).returncode:
        subprocess.run(["apt-get", "update", "-qq"], env=environment)
        subprocess.run(["apt-get", *words], env=environment)
    return find_browser() is not None


if __name__ == "__main__" and find_browser() is None and not install():
    print(ADVICE)
