"""What the browser shows, as arrays."""

import time

import numpy as np


def until(page, expression, seconds=60.0):
    """Wait for something to become true. The page's policy forbids `eval`, which Playwright's own waiting uses."""
    end = time.monotonic() + seconds
    while not page.evaluate(expression):
        assert time.monotonic() < end, f"not within {seconds} s: {expression}"
        time.sleep(0.02)


def pixels(page, selector):
    """A canvas as an array (row, column, 3), first row at the bottom as in the project's figures."""
    width, height, flat = page.locator(selector).first.evaluate(
        "c => [c.width, c.height, [...c.getContext('2d').getImageData(0, 0, c.width, c.height).data]]"
    )
    return np.array(flat).reshape(height, width, 4)[::-1, :, :3]


def plane_point(page, x, y, width=8, height=7, selector="#plane"):
    """Where a cell of the plane is on the screen, once the page has stopped moving it."""
    plane = page.locator(selector)
    plane.element_handle().wait_for_element_state("stable")
    box = plane.bounding_box()
    return box["x"] + (x + 0.5) / width * box["width"], box["y"] + (height - 1 - y + 0.5) / height * box["height"]


def grey(image, truth):
    """How the page shows an image: the square root of its brightness."""
    low, high = min(0.0, truth.min()), truth.max()
    return np.round(255 * np.sqrt(np.clip((image - low) / (high - low), 0, 1)))
