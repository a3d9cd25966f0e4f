"""The page: self-contained, closed to what a stranger writes into runs, and true of odd runs."""

import base64
import hashlib
import json
import re

import pandas as pd
import pytest

from rlkit_sac.analysis import load_external_runs, load_runs, write_report
from rlkit_sac.errors import ConfigError
from tests.analysis.report.conftest import RECIPES, TASKS, Parsed, write_run

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'`${x}<!--"


def test_it_needs_no_other_file(page):
    parsed = Parsed(page)
    for tag, attributes in parsed.elements:
        assert tag not in {"link", "img", "iframe", "object", "embed", "base"}
        assert not {"src", "srcset", "action"} & attributes.keys(), tag
        assert attributes.get("href", "#").startswith("#")


def scripts(text):
    return re.findall(r"<script[^>]*>(.*?)</script>", text, re.DOTALL)


def test_a_browser_may_run_its_own_scripts_and_load_nothing(page):
    parsed = Parsed(page)
    (policy,) = (a["content"] for tag, a in parsed.elements if a.get("http-equiv"))
    rules = {rule.split()[0]: rule.split()[1:] for rule in policy.split(";")}
    own = scripts(page.read_text())
    assert len(own) == 2 + 2 * len(TASKS)  # plotly, returns and metrics, the legend
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in own]
    assert rules["script-src"] == [f"'sha256-{digest}'" for digest in digests]
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == ["'none'"]
    assert rules["img-src"] == ["data:", "blob:"]  # a figure that is saved
    known = {"default-src", "script-src", "style-src", "img-src", "base-uri", "form-action"}
    assert rules.keys() == known


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
    with pytest.warns(UserWarning, match="is not finished"):  # by its status
        write_report(tmp_path, tmp_path / "page.html", title=EVIL)
    text, parsed = (tmp_path / "page.html").read_text(), Parsed(tmp_path / "page.html")
    assert scripts(text)[0] == scripts(page.read_text())[0]
    tags = {tag for tag, _ in harmless.elements}
    assert {tag for tag, _ in parsed.elements} <= tags | {"code", "aside", "ul", "li"}
    assert len([tag for tag, _ in parsed.elements if tag == "script"]) == 4  # of one task
    for _, attributes in parsed.elements:
        assert not any(name.startswith("on") for name in attributes)
    links = [a["href"] for tag, a in parsed.elements if tag == "a" and a["href"][0] != "#"]
    assert sorted(set(links)) == [
        f"./sac/Ant-v5/seed{seed}/videos/{name}"
        for seed in range(2)
        for name in ("a%22b%3Cc%3E%27d%26%23x%20e%3Ff.mp4", "javascript%3Aalert%281%29.mp4")
    ]
    assert any(EVIL in text for _, text in parsed.texts)


@pytest.mark.parametrize("table", ["evaluations", "episodes", "metrics"])
def test_a_table_without_frames_does_not_cost_the_page(tmp_path, table):
    for seed in (0, 1):
        file = write_run(tmp_path, "sac", "Ant-v5", seed) / f"{table}.csv"
    rows = pd.read_csv(file)
    rows.assign(frames=None).to_csv(file, index=False)
    with pytest.warns(UserWarning, match=rf"seed1/{table}.csv, line 2: frames is missing"):
        write_report(tmp_path, tmp_path / "page.html")
    assert f"{table}.csv, line 2: frames is missing" in (tmp_path / "page.html").read_text()


def test_evaluations_that_no_checkpoint_holds_are_noted(tmp_path):
    run = write_run(tmp_path, "sac", "Ant-v5", 0, status="interrupted")
    for frames in (400, 800):
        folder = run / "checkpoints" / f"step_{frames}"
        folder.mkdir(parents=True)
        (folder / "checkpoint.json").touch()
    write_run(tmp_path, "sac", "Ant-v5", 1)  # finished: its checkpoints may have been deleted
    with pytest.warns(UserWarning, match="not finished") as caught:
        write_report(tmp_path, tmp_path / "page.html")
    (note,) = [str(each.message) for each in caught if "not finished" in str(each.message)]
    assert "seed0" in note
    assert "the last checkpoint, at frame 800," in note
    assert "(2)" in note


def test_the_table_of_results_says_where_the_shortest_and_the_longest_run_end(tmp_path):
    write_run(tmp_path, "sac", "Ant-v5", 0)
    short = write_run(tmp_path, "sac", "Ant-v5", 1) / "evaluations.csv"
    short.write_text("".join(short.read_text().splitlines(keepends=True)[:7]))
    with pytest.warns(UserWarning, match="end early"):
        write_report(tmp_path, tmp_path / "page.html")
    texts = [text for _, text in Parsed(tmp_path / "page.html").texts]
    assert "600 to 1,000" in texts


def test_notes_name_no_python(tmp_path):
    for name in ("a", "b"):
        run = write_run(tmp_path / name, "sac", "Ant-v5", 0, status="interrupted")
    file = run / "evaluations.csv"
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:7]))
    with pytest.warns(UserWarning, match="runs") as caught:
        write_report(tmp_path, tmp_path / "page.html")
    notes = " ".join(str(each.message) for each in caught)
    for part in ("have the seed 0", "lines of their own", "end early"):
        assert part in notes
    assert not re.search(r"by=|load_runs|data\[", notes)


def test_logs_of_other_systems_and_a_table_give_the_same_results(runs, tmp_path):
    progress = "time/total_timesteps,eval/mean_reward\n" + "\n".join(
        f"{frames},{frames / 10}" for frames in range(100, 1001, 100)
    )
    log = tmp_path / "sb3" / "progress.csv"
    log.parent.mkdir()
    log.write_text(progress + "\n")
    with pytest.warns(UserWarning, match=r"no episodes were read: .*sb3 has no charts/"):
        write_report([runs, log.parent], tmp_path / "paths.html", task="Ant-v5")
    data = pd.concat([load_runs(runs), load_external_runs(log.parent, task="Ant-v5")])
    write_report(data, tmp_path / "table.html")
    texts = [(tmp_path / name).read_text() for name in ("paths.html", "table.html")]
    first, second = (re.search(r'<section id="results">.*?</section>', t, re.S)[0] for t in texts)
    assert first == second
    assert "Stable-Baselines3" in first
    legend = re.search(r"<fieldset.*?</fieldset>", texts[0], re.DOTALL)[0]
    assert legend.count('value="group ') == len(RECIPES) + 1
    assert "sb3" in texts[0][texts[0].index('<section id="runs">') :]


def test_a_log_without_a_task_is_named_and_costs_no_other_run(tmp_path):
    write_run(tmp_path / "ours", "sac", "Ant-v5", 0)
    (tmp_path / "progress.csv").write_text("time/total_timesteps,eval/mean_reward\n1,2.0\n")
    with pytest.warns(UserWarning, match="do not tell its task"):
        write_report(tmp_path, tmp_path / "page.html")
    assert "1 run " in (tmp_path / "page.html").read_text()
    with pytest.raises(ConfigError, match="the table has no column frames"):
        write_report(load_runs(tmp_path).drop(columns="frames"), tmp_path / "page.html")
