"""The report of a grid: what it says, where it links to, and what a browser makes of it."""

import json
import re
import shutil
import statistics
from pathlib import Path
from typing import get_args, get_type_hints
from urllib.parse import unquote

import pytest

from coteach.analysis.numbers import CHOICES
from coteach.bench.grid import read_grid
from coteach.cli import main
from coteach.cli.report import Ask
from coteach.results.run import run

RUNS = Path(__file__).parent / "runs"
GRID = str(RUNS / "grid.toml")


def report(out, grid=GRID, runs=RUNS, *words):
    assert main(["report", str(grid), "--runs", str(runs), "--out", str(out), *words]) == 0
    return out.read_text()


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    out = tmp_path_factory.mktemp("report") / "report.html"
    report(out)
    return out


def test_it_says_what_is_there_and_what_is_missing(page, capsys):
    text = page.read_text()
    assert "8 of 14 runs of the grid are here" in text
    for table, count in [("Small MNIST", "7 of 8"), ("Small digits", "1 of 4"), ("Sweep", "2 of 4")]:
        assert f"<dt>{table}</dt><dd>{count} runs</dd>" in text
    assert text.count('<tr class="done">') == 8
    assert text.count('<tr class="missing">') == 6
    assert "Small MNIST: pair-45, co-teaching <" in text
    assert "(also Sweep)" in text  # a run of two tables is listed once
    report(page)
    assert capsys.readouterr().out == f"{page}: 8 of 14 runs\n"
    assert page.read_text() == text


def test_printed_numbers_and_marked_differences(page):
    text = page.read_text()
    assert '78.50 ± 2.83<span class="beside">87.63, <span class="far">−9.13</span>' in text
    assert '88.50 ± 0.71<span class="beside">91.32, <span class="near">−2.82</span>' in text
    assert '61.00 (n = 1)<span class="beside">66.05, <span class="far">−5.05</span>' in text
    assert text.count("mean over all 4 epochs and over a method&#39;s networks; mean ± std over n = 2") == 6


def test_times_and_environments(page):
    text = page.read_text()
    cells = r"<td class=\"right\">{}</td>" * 3
    for method, data, *numbers in [
        ("standard", "mnist", 3, "10.0", "32.0 s"),  # 10, 12, 10
        ("co-teaching", "mnist", 4, "21.5", "86.0 s"),  # 20, 23, 20, 23
        ("co-teaching", "digits", 1, "20.0", "20.0 s"),
    ]:
        assert re.search(rf">{method}</th><td>{data}</td><td[^>]*>[^<]*</td>{cells.format(*numbers)}", text)
    assert "All runs together: 2.3 min" in text  # 138 s
    assert [int(n) for n in re.findall(r"<h3>(\d+) runs?</h3>", text)] == [7, 1]


def test_a_run_that_shared_its_device_counts_for_its_share(tmp_path):
    shutil.copytree(RUNS, tmp_path / "runs")
    (path,) = (path for path in (tmp_path / "runs").glob("digits-*.json"))
    content = json.loads(path.read_text())
    content["summary"]["device_seconds"] = content["summary"]["seconds"] - 9
    path.write_text(json.dumps(content))
    text = report(tmp_path / "report.html", runs=tmp_path / "runs")
    assert "All runs together: 2.1 min" in text  # 9 s less than 138
    assert "11.0 s</td>" in text
    assert re.search(r'<td class="right">11\.0</td>', text)


def test_every_way_to_choose_a_number(tmp_path):
    assert get_args(get_type_hints(Ask)["number"]) == tuple(CHOICES)
    assert "51.00 ± 1.41" in report(tmp_path / "final.html", GRID, RUNS, "--number", "final")
    best = report(tmp_path / "best.html", GRID, RUNS, "--number", "best", "--only", "pair-45", "standard")
    assert "71.00 ± 1.41" in best
    assert best.count(CHOICES["best"].caption.replace("'", "&#39;")) >= 3  # under both tables and in the list of runs
    assert "co-teaching" not in best.split("<script>")[0].split("<h2>Runs</h2>")[0]


def links(out):
    return [unquote(href) for href in re.findall(r'<a href="([^"#][^"]*)"', out.read_text())]


@pytest.mark.slow
def test_links_are_right_from_any_folder(tmp_path, monkeypatch):
    runs = tmp_path / "published 100 % & ü"
    shutil.copytree(RUNS, runs)
    monkeypatch.chdir(tmp_path)
    for out in (
        tmp_path / "report.html",
        tmp_path / "far" / "down" / "report.html",
        Path("here.html"),
        runs / "in.html",
    ):
        report(out, GRID, runs if out.is_absolute() else runs.relative_to(tmp_path))
        assert len(links(out)) == 8
        for link in links(out):
            assert not link.startswith("/")
            assert (out.parent / link).is_file()


def test_a_run_folder_is_linked_as_a_folder(tmp_path):
    (tmp_path / "grid.toml").write_text(
        'data = "digits"\nnoises = ["pair-45"]\nmethods = ["standard"]\n[settings]\nepochs = 1\nmax_steps = 2\n'
    )
    ((config, _),) = read_grid(str(tmp_path / "grid.toml")).runs()
    done = run(config, tmp_path / "runs")
    report(tmp_path / "report.html", tmp_path / "grid.toml", tmp_path / "runs")
    assert links(tmp_path / "report.html") == [f"runs/{done.path.name}/"]


def test_without_any_run(tmp_path):
    (tmp_path / "runs").mkdir()
    text = report(tmp_path / "report.html", GRID, tmp_path / "runs")
    assert "0 of 14 runs" in text
    assert "no runs" in text
    assert "Nothing to show yet for Small digits, Sweep" in text  # of the other one there are printed numbers
    assert text.count('<tr class="missing">') == 14


def test_titles_are_text(tmp_path):
    (tmp_path / "grid.toml").write_text('title = "<b>R&D</b>"\ndata = "digits"\nnoises = ["pair-45"]\n')
    text = report(tmp_path / "report.html", tmp_path / "grid.toml", RUNS)
    assert "<b>" not in text
    assert "<h1>&lt;b&gt;R&amp;D&lt;/b&gt;</h1>" in text


def test_one_file_with_ids_of_its_own(page):
    text = page.read_text()
    for outside in ("http:", "https:", "src=", "@import", "url(", "<link"):
        for place in re.finditer(re.escape(outside), text):
            around = text[place.start() : place.start() + 60]
            assert around.startswith(("http://www.w3.org", "url(#")), around
    ids = re.findall(r'\sid="([^"]+)"', text)
    assert len(ids) == len(set(ids)) > 10
    assert set(re.findall(r'(?:href="|url\()#([\w-]+)', text)) <= set(ids)


@pytest.fixture
def opened(browser, page):
    """The page in a wide window; what the browser said and asked for before is forgotten."""
    screen(browser, 1280, 900)
    browser.get_log("performance")
    browser.get_log("browser")
    browser.get(page.as_uri())
    return browser


def screen(browser, width, height):
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def test_it_asks_nobody_and_complains_of_nothing(opened, page):
    messages = [json.loads(entry["message"])["message"] for entry in opened.get_log("performance")]
    asked = {m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"}
    assert asked == {page.as_uri()}
    assert opened.get_log("browser") == []


def shown(browser):
    """Dataset, noise and axis of every figure that can be seen."""
    return {
        tuple(each)
        for each in browser.execute_script(
            "return [...document.querySelectorAll('#curves figure')].filter(f => f.getClientRects().length)"
            ".map(f => [f.closest('.view').dataset.dataset, f.closest('.view').dataset.noise, f.dataset.axis])"
        )
    }


def test_the_switches(opened):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    def button(value):
        return opened.find_element(By.CSS_SELECTOR, f"#curves button[data-value='{value}']")

    assert shown(opened) == {("mnist", "pair-45", "cropped")}
    button("symmetric-50").click()
    assert shown(opened) == {("mnist", "symmetric-50", "cropped")}
    button("full").send_keys(Keys.ENTER)  # as the keyboard does it
    assert shown(opened) == {("mnist", "symmetric-50", "full")}
    button("digits").send_keys(Keys.SPACE)
    assert shown(opened) == {("digits", "symmetric-20", "full")}  # the only noise there
    assert not button("pair-45").is_displayed()
    pressed = opened.find_elements(By.CSS_SELECTOR, "#curves button[aria-pressed='true']")
    assert [each.text for each in pressed] == ["digits", "symmetric-20", "full"]
    button("mnist").click()
    assert shown(opened) == {("mnist", "pair-45", "full")}
    assert opened.get_log("browser") == []


def test_without_scripts_everything_is_shown(opened):
    opened.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        opened.refresh()
        places = [("mnist", "pair-45"), ("mnist", "symmetric-50"), ("digits", "symmetric-20")]
        assert shown(opened) == {(*place, axis) for place in places for axis in ("cropped", "full")}
        assert not opened.execute_script("return document.querySelector('.switches').getClientRects().length")
    finally:
        opened.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_the_numbers_are_those_of_the_runs(opened):
    """Computed again from the files, without coteach."""
    groups = {}
    for file in sorted(RUNS.glob("*.json")):
        content = json.loads(file.read_text())
        config, epochs = content["config"], content["epochs"]
        place = (config["data"], f"{config['noise']}-{100 * config['rate']:g}", config["method"])
        for measure in ("test_accuracy", "label_precision"):
            values = [statistics.fmean(networks) for networks in epochs[measure][-10:]]
            groups.setdefault((measure, *place), []).append(100 * statistics.fmean(values))
    expected = {}
    for place, values in groups.items():
        spread = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else " (n = 1)"
        expected[place] = f"{statistics.fmean(values):.2f}{spread}"
    tables = opened.execute_script(
        "return [...document.querySelectorAll('#tables table')].map(t => [...t.rows].map(r => [...r.cells]"
        ".map(c => (c.firstChild ? c.firstChild.textContent : '').trim())))"
    )
    found = {}
    for (measure, data), (head, *rows) in zip(
        [(m, d) for d in ("mnist", "digits") for m in ("test_accuracy", "label_precision")], tables, strict=False
    ):
        for noise, *cells in rows:
            for method, text in zip(head[1:], cells, strict=True):
                if text != "–":
                    found[measure, data, noise, method] = text
    assert found == expected
    bold = opened.execute_script(
        "return [...document.querySelectorAll('#tables td')].filter(c => getComputedStyle(c).fontWeight >= 600)"
        ".map(c => c.firstChild.textContent.trim())"
    )
    assert bold[:2] == [
        expected["test_accuracy", "mnist", noise, "co-teaching"] for noise in ("pair-45", "symmetric-50")
    ]


def test_a_phone_scrolls_only_downwards(opened):
    screen(opened, 390, 844)
    wide = "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    scroll, client = opened.execute_script(wide)
    assert (scroll, client) == (390, 390)
    opened.execute_script("document.querySelectorAll('[hidden]').forEach(e => e.hidden = false)")
    assert opened.execute_script(wide) == [390, 390]
    inside = "const s = document.querySelector('#runs .scroll'); return s.scrollWidth > s.clientWidth"
    assert opened.execute_script(inside)  # the table that is too wide scrolls in its card


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark(opened, scheme):
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    lightness = (
        "const c = document.createElement('canvas').getContext('2d'); return arguments[0].map(([q, p]) => {"
        "c.fillStyle = getComputedStyle(document.querySelector(q))[p]; c.fillRect(0, 0, 1, 1);"
        "return [...c.getImageData(0, 0, 1, 1).data].slice(0, 3).reduce((a, b) => a + b) / 765 })"
    )
    places = [["body", "backgroundColor"], ["body", "color"], ["figure svg text", "fill"], [".card", "backgroundColor"]]
    ground, ink, figure_ink, card = opened.execute_script(lightness, places)
    if scheme == "dark":
        ground, ink, figure_ink, card = 1 - ground, 1 - ink, 1 - figure_ink, 1 - card
    assert min(ground, card) > 0.85
    assert max(ink, figure_ink) < 0.2
