"""The page in a browser: it draws, and answers to the mouse, the keyboard and its controls."""

import base64
import hashlib
import json
import re
import shutil
import subprocess
import urllib.parse
from pathlib import Path

import pandas as pd
import pytest

from tests.analysis.report.conftest import SEEDS

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))),
    None,
)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="needs Chromium or Chrome")

# Runs before the page's own scripts, and so sees their errors.
LISTEN = """
window.problems = [];
addEventListener("error", (event) => problems.push(String(event.message)));
addEventListener("unhandledrejection", (event) => problems.push(String(event.reason)));
addEventListener("securitypolicyviolation", (event) => problems.push(event.violatedDirective));
console.error = (...words) => problems.push(words.join(" "));
"""
# Runs after them, and writes what it finds into the page.
LOOK = """
const found = {};
const pause = (time) => new Promise((done) => setTimeout(done, time));
const plots = (id) => [...document.querySelectorAll(`#${id} .plot`)];
const pixels = (plot) => {
  const canvas = plot.querySelector("canvas");
  const image = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  const counts = {};
  for (let at = 0; at < image.length; at += 4) {
    const color = image.slice(at, at + 4).join();
    counts[color] = (counts[color] || 0) + 1;
  }
  return counts;
};
const legend = (plot) =>
  Object.fromEntries(
    [...plot.querySelectorAll(".u-series:not(.edge)")].map((row) => [
      row.querySelector(".u-label").textContent,
      row.classList.contains("u-off") ? "off" : row.querySelector(".u-value").textContent,
    ]),
  );
const hover = async (plot, share) => {
  const over = plot.querySelector(".u-over");
  const box = over.getBoundingClientRect();
  const place = { clientX: box.left + share * box.width, clientY: box.top + 20, bubbles: true };
  over.dispatchEvent(new MouseEvent("mouseenter", place));
  over.dispatchEvent(new MouseEvent("mousemove", place));
  await pause(50);
};
const set = async (id, value, name) => {
  const control = document.getElementById(id);
  if (control.type === "checkbox") control.checked = value;
  else control.value = value;
  control.dispatchEvent(new Event(name));
  await pause(50);
};
const inside = (part, whole) => part.right <= whole.right + 1 && part.left >= whole.left - 1;
const steps = async () => {
  const [first, episodes] = plots("curve-charts");
  found.charts = [plots("curve-charts").length, plots("metric-charts").length];
  found.drawn = [...plots("curve-charts"), ...plots("metric-charts")].map(pixels).map((counts) =>
    Object.keys(counts).length);
  first.scrollIntoView();
  await pause(100);
  dispatchEvent(new Event("beforeprint")); // all follow the controls, also those off screen
  found.colors = ["0,114,178,255", "213,94,0,255"].map((color) => pixels(first)[color] || 0);
  found.fits = document.documentElement.scrollWidth <= innerWidth;
  found.inside = plots("curve-charts").every((plot) =>
    inside(plot.querySelector("canvas").getBoundingClientRect(), plot.getBoundingClientRect()));
  await hover(first, 1);
  found.last = legend(first);
  await hover(first, 0);
  found.first = legend(first);
  found.together = legend(episodes)["frames"];
  await set("axis", "seconds", "change");
  await hover(first, 1);
  found.minutes = legend(first);
  await set("axis", "frames", "change");
  await set("smoothing", "0.5", "input");
  await hover(first, 1);
  found.smoothed = legend(first);
  await set("smoothing", "0", "input");
  await hover(first, 1);
  found.raw = legend(first);
  const name = first.querySelectorAll(".curve th")[1];
  const before = pixels(first)["213,94,0,255"];
  name.click();
  await pause(50);
  found.hidden = [legend(first), legend(plots("metric-charts")[0])];
  found.paint = [before, pixels(first)["213,94,0,255"] || 0];
  name.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" }));
  await pause(50);
  found.shown = legend(first);
  name.dispatchEvent(new MouseEvent("click", { ctrlKey: true }));
  await pause(50);
  found.alone = legend(episodes);
  name.dispatchEvent(new MouseEvent("click", { ctrlKey: true }));
  await pause(50);
  found.all = legend(episodes);
  await set("single-runs", true, "change");
  await hover(first, 1);
  found.runs = legend(first);
  await set("single-runs", false, "change");
  const select = document.getElementById("metric-task");
  select.value = 1;
  select.dispatchEvent(new Event("change"));
  await pause(100);
  found.other = plots("metric-charts").length;
  found.themes = [document.documentElement.dataset.theme];
  found.themes.push(getComputedStyle(document.body).backgroundColor);
  document.getElementById("theme").click();
  await pause(100);
  found.themes.push(document.documentElement.dataset.theme);
  found.themes.push(getComputedStyle(document.body).backgroundColor);
  found.dark = [pixels(first)["75,163,227,255"] || 0, pixels(first)["0,114,178,255"] || 0];
  const names = document.querySelectorAll(".u-label, #metric-task option");
  for (const each of names) each.textContent = "x".repeat(2000);
  found.legend_height = first.querySelector(".u-legend").offsetHeight;
  found.fits_long_names = document.documentElement.scrollWidth <= innerWidth;
};
addEventListener("load", async () => {
  try { await steps(); } catch (error) { problems.push(String(error.stack)); }
  const result = document.createElement("pre");
  result.id = "found";
  result.textContent = encodeURIComponent(JSON.stringify({ ...found, problems }));
  document.body.append(result);
});
"""


def look(page: Path, folder: Path, width: int) -> dict:
    """What the browser finds in a window of that width."""
    text = page.read_text()
    hashes = [
        base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        for script in (LISTEN, LOOK)
    ]
    allowed = " ".join(f"'sha256-{each}'" for each in hashes)
    text = text.replace("script-src ", f"script-src {allowed} ")
    text = text.replace("<style>", f"<script>{LISTEN}</script><style>", 1)
    text = text.replace("</body>", f"<script>{LOOK}</script></body>")
    (folder / "page.html").write_text(text)
    command = [
        *(BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--force-device-scale-factor=1"),
        *("--blink-settings=preferredColorScheme=1", f"--user-data-dir={folder / 'profile'}"),
        *(f"--window-size={width},1000", "--virtual-time-budget=20000", "--dump-dom"),
        (folder / "page.html").as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    result = re.search('<pre id="found">([^<]*)</pre>', done.stdout)
    assert result, done.stderr[-2000:]
    return json.loads(urllib.parse.unquote(result[1]))


@pytest.fixture(scope="module", params=[1300, 500], ids=["wide", "narrow"])
def found(page, tmp_path_factory, request):
    return look(page, tmp_path_factory.mktemp("browser"), request.param)


def test_it_loads_without_errors_and_draws_all_charts(found):
    assert found["problems"] == []
    assert found["charts"] == [4, 6]
    assert min(found["drawn"]) > 5  # colors: lines, bands, axes, text
    assert min(found["colors"]) > 50  # pixels of each group
    assert found["fits"]
    assert found["fits_long_names"]
    assert found["legend_height"] < 200
    assert found["inside"]


def numbers(text):
    return [float(each) for each in re.findall(r"-?\d+(?:\.\d+)?", text)]


@pytest.fixture(scope="module")
def returns(runs):
    """Mean, minimum and maximum over the seeds of sac on the first task, by frame."""
    files = [runs / "sac" / "Ant-v5" / f"seed{seed}" / "evaluations.csv" for seed in SEEDS]
    tables = pd.concat([pd.read_csv(file) for file in files])
    return tables.groupby("frames")["return_mean"].agg(["mean", "min", "max"])


def test_a_group_is_hidden_everywhere_by_mouse_and_shown_by_key(found):
    curves, metrics = found["hidden"]
    assert curves["sac (3 runs)"] == metrics["sac"] == "off"
    assert "off" not in (curves["acer (3 runs)"], metrics["acer"])
    before, after = found["paint"]
    assert before > 100
    assert after == 0
    assert found["shown"]["sac (3 runs)"] != "off"
    names = ("acer (3 runs)", "sac (3 runs)")
    assert [found["alone"][name] == "off" for name in names] == [True, False]
    assert [found["all"][name] == "off" for name in names] == [False, False]
