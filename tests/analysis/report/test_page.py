"""The page: self-contained, closed to what a stranger writes into runs, and true of odd runs."""

import base64
import hashlib
import json
import re

from rlkit_sac.analysis import write_report
from tests.analysis.report.conftest import Parsed, write_run

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'`${x}<!--"


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
