"""A page as a real browser shows it (docs/adr/0050-simulated-worlds.md)."""

from __future__ import annotations

import html
import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

LIMIT_S = 60
"""A page takes half a second; a busy machine may take its time."""

OPTIONS = (
    "--no-sandbox",  # root may not have one; the pages are our own
    "--disable-gpu",
    "--disable-dev-shm-usage",  # /dev/shm of a container is small
    # The frame is another origin otherwise. It lets the page read files that an ordinary browser
    # refuses: so there are none beside it.
    "--allow-file-access-from-files",
    "--enable-logging=stderr",
    "--dump-dom",
)

# The page stays as it is, in a frame; what encloses it looks once everything has loaded. Ink is
# the part of a picture that is not white, in thousandths.
_FRAME = """\
<!DOCTYPE html>
<meta charset="utf-8">
<iframe width="1000" height="800" src="{address}"></iframe>
<pre></pre>
<script>
function ink(image) {{
  if (!image.naturalWidth) return 0;
  const canvas = document.createElement("canvas");
  canvas.width = image.naturalWidth;
  canvas.height = image.naturalHeight;
  const context = canvas.getContext("2d");
  context.fillStyle = "white";
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(image, 0, 0);
  const {{data}} = context.getImageData(0, 0, canvas.width, canvas.height);
  let inked = 0;
  for (let at = 0; at < data.length; at += 4)
    if (data[at] + data[at + 1] + data[at + 2] < 3 * 255) inked++;
  return Math.floor(1000 * inked / (canvas.width * canvas.height));
}}
onload = () => {{
  const shown = document.querySelector("iframe").contentWindow;
  const page = shown.document;
  const row = each => [...each.cells].map(cell => cell.innerText.trim());
  document.querySelector("pre").textContent = JSON.stringify({{
    title: page.title,
    rows: [...page.querySelectorAll("tr")].map(row),
    pictures: [...page.images].map(each => [each.alt, each.naturalWidth, ink(each)]),
    fetched: shown.performance.getEntriesByType("resource").map(each => each.name),
  }});
}};
</script>
"""


@dataclass(frozen=True)
class Seen:
    """What is on a page."""

    title: str
    rows: list[list[str]]
    """Of all tables, the text of each cell."""
    pictures: list[tuple[str, int, int]]
    """Name, width in pixels (0: could not be loaded) and ink in thousandths (0: white)."""
    fetched: list[str]
    """What it wanted from the network: addresses."""
    console: list[str]
    """What the page, or the browser about it, wrote to the console."""


def seen(page: Path, scratch: Path) -> Seen:
    """Open a copy of a file as somebody does who got it by mail: with nothing beside it.

    `scratch` is an empty directory for the browser.

    Raises:
        subprocess.CalledProcessError: there is no browser, or it did not end in time (124).
    """
    copy = scratch / "page.html"
    copy.write_bytes(page.read_bytes())
    frame = scratch / "frame.html"
    frame.write_text(_FRAME.format(address=copy.as_uri()), encoding="utf-8")
    # `timeout` ends the browser's children too, which hold the pipes.
    command = ["timeout", str(LIMIT_S), "chromium-headless-shell", *OPTIONS]
    ended = subprocess.run(
        [*command, f"--user-data-dir={scratch / 'profile'}", frame.as_uri()],
        capture_output=True,
        text=True,
        check=True,
    )
    found = re.search(r"<pre>(.+)</pre>", ended.stdout, re.DOTALL)
    assert found, f"the browser saw no page: {ended.stderr}"
    looked = json.loads(html.unescape(found[1]))
    return Seen(
        looked["title"],
        looked["rows"],
        [tuple(each) for each in looked["pictures"]],
        looked["fetched"],
        [line for line in ended.stderr.splitlines() if ":CONSOLE" in line],
    )
