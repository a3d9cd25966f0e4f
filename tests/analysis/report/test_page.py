"""The page: self-contained, closed to what a stranger writes into runs, and true of odd runs."""

import base64
import hashlib
import json
import re
from pathlib import Path

import pytest

import rlkit_sac.analysis.report
from rlkit_sac.analysis import write_report
from rlkit_sac.errors import ConfigError, RunError
from tests.analysis.report.conftest import Parsed, write_run

# Of uplot 1.6.32 as npm has it.
LIBRARY = {
    "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
    "uPlot.LICENSE": "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
}
EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'`${x}<!--"


@pytest.mark.parametrize("name", LIBRARY)
def test_the_library_is_as_published(name):
    file = Path(rlkit_sac.analysis.report.__file__).with_name(name)
    assert hashlib.sha256(file.read_bytes()).hexdigest() == LIBRARY[name]


def test_it_needs_no_other_file_and_is_small(page):
    parsed = Parsed(page)
    for tag, attributes in parsed.elements:
        assert tag not in {"link", "img", "iframe", "object", "embed", "base"}
        assert not {"src", "srcset", "style", "action"} & attributes.keys(), tag
        assert attributes.get("href", "#").startswith("#")
    assert "@import" not in page.read_text()
    assert "url(" not in page.read_text()
    assert page.stat().st_size < 200_000


def scripts(text):
    return re.findall(r"<script>(.*?)</script>", text, re.DOTALL)


def test_a_browser_may_run_its_two_scripts_and_load_nothing(page):
    parsed = Parsed(page)
    (policy,) = (a["content"] for tag, a in parsed.elements if a.get("http-equiv"))
    rules = {rule.split()[0]: rule.split()[1:] for rule in policy.split(";")}
    own = scripts(page.read_text())
    assert len(own) == 2
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in own]
    assert rules["script-src"] == [f"'sha256-{digest}'" for digest in digests]
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == ["'none'"]
    assert rules.keys() <= {"default-src", "script-src", "style-src", "base-uri", "form-action"}


def test_what_a_stranger_writes_is_text(page, tmp_path):
    harmless = Parsed(page)
    description = {
        **dict.fromkeys(("host", "platform", "command", "error", "device", "started"), EVIL),
        "versions": {EVIL: EVIL, "torch": [EVIL]},
    }
    for seed, recipe in enumerate(("sac", EVIL)):
        run = write_run(tmp_path, "sac", "Ant-v5", seed)
        info = json.loads((run / "run.json").read_text())
        changed = {**info, **description, "recipe": recipe, "task": EVIL, "status": EVIL}
        (run / "run.json").write_text(json.dumps(changed))
        (run / "config.yaml").write_text(json.dumps({EVIL: {EVIL: recipe}, "loss": EVIL}))
        metrics = (
            (run / "metrics.csv").read_text().replace("alpha", f'"{EVIL}"'.replace("\"'", "'"))
        )
        (run / "metrics.csv").write_text(metrics)
        (run / "videos").mkdir()
        for name in ("javascript:alert(1).mp4", "a\"b<c>'d&#x e?f.mp4", "e.txt"):
            (run / "videos" / name).touch()
    write_report(tmp_path, tmp_path / "page.html", title=EVIL)
    text, parsed = (tmp_path / "page.html").read_text(), Parsed(tmp_path / "page.html")
    assert scripts(text) == scripts(page.read_text())
    tags = {tag for tag, _ in harmless.elements}
    assert {tag for tag, _ in parsed.elements} <= tags | {"code"}
    assert len([tag for tag, _ in parsed.elements if tag == "script"]) == 3
    for _, attributes in parsed.elements:
        assert not any(name.startswith("on") for name in attributes)
    links = [a["href"] for tag, a in parsed.elements if tag == "a" and a["href"][0] != "#"]
    assert sorted(set(links)) == [
        f"./sac/Ant-v5/seed{seed}/videos/{name}"
        for seed in range(2)
        for name in ("a%22b%3Cc%3E%27d%26%23x%20e%3Ff.mp4", "javascript%3Aalert%281%29.mp4")
    ]
    assert parsed.data["tasks"][0]["name"] == EVIL
    assert any(EVIL in text for _, text in parsed.texts)


def test_options_that_differ_are_told_from_those_that_do_not(page):
    text = page.read_text()
    differing, same = text.split("<details>")[0], text.split("<details>")[1]
    row = '<th scope="row">loss.gamma</th><td>0.9</td><td>0.99</td><td>0.9</td><td>0.99</td>'
    assert row in differing
    assert '<th scope="row">update.lr_actor</th><td>0.001</td>' in same
    assert "differs within the group" not in text
    assert '<th scope="row">seed</th>' not in text


def test_an_option_that_differs_within_a_group_is_marked(runs, tmp_path):
    write_report(runs, tmp_path / "a.html", by=())
    text = (tmp_path / "a.html").read_text()
    assert '<span class="mixed" title="differs within the group">0.9 | 0.99</span>' in text
    assert Parsed(tmp_path / "a.html").data["groups"] == ["all runs"]


def test_runs_that_end_in_other_ways_are_shown_and_damaged_ones_named(tmp_path):
    write_run(tmp_path, "sac", "Ant-v5", 0)
    write_run(tmp_path, "sac", "Ant-v5", 1, status="failed", error="EnvironmentFault: it fell")
    running = write_run(tmp_path, "sac", "Ant-v5", 2, status="running", host="other")
    with (running / "evaluations.csv").open("a") as file:
        file.write("1100,4")  # a row that is being written
    begun = write_run(tmp_path, "sac", "Ant-v5", 3, status="created")
    for name in ("evaluations", "episodes", "metrics"):
        (begun / f"{name}.csv").unlink()
    damaged = write_run(tmp_path, "sac", "Ant-v5", 4)
    (damaged / "run.json").write_text("{")
    torn = write_run(tmp_path, "sac", "Ant-v5", 5)
    (torn / "metrics.csv").write_text("frames,alpha\n1,2\n1,2,3\n")
    unread = write_run(tmp_path, "sac", "Ant-v5", 6)
    (unread / "config.yaml").unlink()
    with pytest.warns(UserWarning, match="left out|no configuration") as caught:
        write_report(tmp_path, tmp_path / "a.html")
    text = (tmp_path / "a.html").read_text()
    notes = text[text.index("<aside") : text.index("</aside>")]
    assert notes.count("<li>") == len(caught) == 3
    for part in (
        "seed4/run.json is damaged",
        "seed5/metrics.csv cannot be read as a table",
        "seed6/config.yaml",
    ):
        assert part in notes
    assert str(tmp_path) not in notes
    for status in ("finished", "failed", "running", "created"):
        assert f'<span class="status {status}">{status}</span>' in text
    assert "EnvironmentFault: it fell" in text
    assert "Not the same in all runs: host." in text
    assert "6 runs · 1 task" in text
    (curve,) = Parsed(tmp_path / "a.html").values("evaluations.curves", "Ant-v5")
    assert curve["frames"][-1] == 1000


def test_a_run_without_any_row_has_a_page(tmp_path):
    run = write_run(tmp_path, "sac", "Ant-v5", 0, status="created")
    for name in ("evaluations", "episodes", "metrics"):
        (run / f"{name}.csv").unlink()
    write_report(run, run / "report.html")
    assert "No run has an evaluation yet." in (run / "report.html").read_text()


def test_what_cannot_be_drawn_is_left_out(tmp_path):
    run = write_run(tmp_path, "sac", "Ant-v5", 0)
    text = "frames,alpha,kl,note,entropy\n100,inf,1.0,a,\n200,nan,1e300,b,\n300,2.0,-inf,c,\n"
    (run / "metrics.csv").write_text(text)
    write_report(run, run / "report.html")
    parsed = Parsed(run / "report.html")
    names = [chart["name"] for chart in parsed.data["tasks"][0]["metrics"]["charts"]]
    assert names == ["alpha", "kl"]
    assert parsed.values("kl", "Ant-v5")[0]["value"] == [1, 1e300, None]


@pytest.mark.parametrize(
    ("path", "options", "message"),
    [
        ("a.png", {}, "a.png ends in '.png'; a report is written as .html"),
        ("pages.html", {}, "pages.html is a folder"),
        ("a.html", {"by": ("recipe", "loss.gama")}, "did you mean 'loss.gamma'"),
        ("a.html", {"confidence": 1.5}, "confidence is 1.5"),
        ("a.html", {"statistic": "median"}, "choose 'mean' or 'iqm'"),
        ("file/a.html", {}, "cannot write .*file/a.html"),
    ],
)
def test_what_cannot_be_written_is_refused(runs, tmp_path, path, options, message):
    (tmp_path / "pages.html").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=message):
        write_report(runs, tmp_path / path, **options)
    assert not (tmp_path / "a.html").exists()


def test_folders_without_a_run_that_can_be_read_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="no run found"):
        write_report(tmp_path, tmp_path / "a.html")
    with pytest.raises(ConfigError, match="is not a directory"):
        write_report(tmp_path / "nowhere", tmp_path / "a.html")
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(RunError, match=r"run\.json is damaged"):
        write_report(tmp_path, tmp_path / "a.html")
