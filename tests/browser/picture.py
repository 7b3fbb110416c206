"""Makes the README's picture: the page as it opens, with its recorded run stopped at the first captions.

make picture
"""

import io
import sys
import tempfile
from pathlib import Path

from chromium import ARGS, find
from PIL import Image
from playwright.sync_api import sync_playwright
from server import APP, serving

SIZE, SCALE = {"width": 1280, "height": 800}, 1.5


def main() -> None:
    path = sys.argv[1] if len(sys.argv) > 1 else "assets/screenshot.png"
    with tempfile.TemporaryDirectory() as folder, serving(APP, Path(folder) / "log") as url, sync_playwright() as tools:
        browser = tools.chromium.launch(executable_path=find(), args=ARGS)
        page = browser.new_page(viewport=SIZE, device_scale_factor=SCALE, color_scheme="light")
        page.goto(url)
        page.locator(".sl-captions").wait_for(timeout=120_000)
        page.get_by_role("button", name="Pause").click()
        row = page.locator("#stage [data-part=round]").filter(has=page.locator(".sl-rejected")).last
        row.locator(".sl-rejected").click()
        page.locator("#stage").get_by_text("min(1, p/q)").first.wait_for()
        page.mouse.move(0, 0)
        page.get_by_text("Ready on").wait_for(timeout=120_000)
        page.wait_for_timeout(1000)  # chips glow for a moment
        picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
        browser.close()
    picture.quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)  # a third of the bytes


if __name__ == "__main__":
    main()
