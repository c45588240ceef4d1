"""The page of an audit in a browser, and what `coteach audit apply` makes of the decisions."""

import base64
import csv
import io
import json
import re
import time

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from coteach import data
from coteach.audit.apply import apply
from coteach.audit.issues import Issues
from coteach.estimate.combined import Estimate, Rate
from coteach.report.audit import AuditPage, looks, render_audit

NAMES = ("zero", "one", "</script><b>two", 'th"ree', "fo'ur", "fi&ve", "$six$ $", "se\nven", "eight, or 8", " nine")
HOSTILE = (
    "<img src=x onerror=alert(1)>",
    '"quoted", too',
    "it's & ampersand",
    "new\nline",
    "__proto__",
    "</script><b>{{ x }}",
)


def issues_of(ids, given, suggested, score, names=NAMES, counted=None):
    """An audit without a training: evidence made up from the score."""
    given, suggested, score = np.array(given), np.array(suggested), np.array(score, float)
    differ = given != suggested
    return Issues(
        ids=tuple(ids),
        class_names=tuple(names),
        given=given,
        suggested=suggested,
        score=score,
        is_issue=differ if counted is None else differ & np.array(counted),
        picked=np.stack([1 - score, 1 - score / 2], 1),
        loss=3 * (1 - score) ** 2,  # another order than that of the scores
        p_given=1 - score,
        p_suggested=score,
    )


def estimate_of(issues, warnings=()):
    classes = len(issues.class_names)
    parts = (Rate("latent classes", 0.2, 0.17, 0.24), Rate("disagreement", 0.31, 0.28, 0.33))
    member = np.eye(classes)[issues.suggested]
    return Estimate(0.21, 0.165, 0.25, np.eye(classes), tuple(warnings), 0.0, member, parts)


def page_of(issues, look, **changes):
    made = {
        "title": "Labels",
        "estimate": estimate_of(issues),
        "apply": "coteach audit apply a --out b.csv",
        "command": "coteach audit x",
    } | changes
    return AuditPage(issues=issues, look=look, **made)


def cards_in(html):
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)
    return json.loads(found[1])["cards"]


def audited(folder, issues, source, kind, label=""):
    """The folder of an audit."""
    folder.mkdir()
    issues.write(folder / "label_issues.csv")
    about = {"data": str(source), "kind": kind, "label": label, "class_names": issues.class_names}
    (folder / "audit.json").write_text(json.dumps(about))
    return folder


def decisions_in(path, *rows):
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("id", "given_label", "suggested_label", "decision"), *rows])
    return path


def bytes_below(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture
def scans(tmp_path):
    """30 digits as image files in a folder a class, some with hostile names; every third label is wrong."""
    digits = load_digits()
    root, ids, given = tmp_path / "scans", [], []
    names = [name.replace("\n", " ").replace("/", "|").strip() for name in NAMES]  # as a folder can be called
    for n in range(30):
        label = (int(digits.target[n]) + (n % 3 == 0)) % 10
        file = f"{names[label]}/{HOSTILE[n // 5] if n % 5 == 0 else f'scan {n}'}.png"
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((digits.images[n] * 15.9).astype(np.uint8)).save(root / file)
        ids.append(file)
        given.append(label)
    score = [0.99 - 0.01 * n if n % 3 == 0 else 0.3 - 0.01 * n for n in range(30)]
    return root, issues_of(ids, given, digits.target[:30], score, names)


def test_from_the_page_to_the_cleaned_labels(browser, scans, tmp_path, cli):
    """Everything that a person does, in a browser; then the file that was downloaded is applied."""
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import Select

    def find(query):
        return browser.find_element(By.CSS_SELECTOR, query)

    def shown():
        return browser.execute_script("return [...document.querySelectorAll('#cards .id')].map(e => e.textContent)")

    def counter():
        return find("#counter").text

    root, issues = scans
    before = bytes_below(root)
    dataset = data.load(root, test_share=0)
    assert set(dataset.ids) == set(issues.ids)
    place = [dataset.ids.index(each) for each in issues.ids]
    page, look = tmp_path / "audit.html", looks(dataset, str(root))
    page.write_text(render_audit(page_of(issues, lambda n: look(place[n]))))
    size = {"width": 1280, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    browser.get_log("performance")
    browser.get_log("browser")
    browser.get(page.as_uri())

    worst = [n for n in issues.worst_first if n % 3 == 0]
    names = [issues.ids[n] for n in worst]
    assert shown() == names  # nothing in a name became anything but text
    assert counter() == "0 accepted, 0 rejected, 10 undecided"
    picture = find("#cards img")
    assert picture.get_attribute("naturalWidth") == "8"
    assert picture.size["width"] == 128

    # accept one and reject one, with the keyboard, the mouse, and a second thought about a third
    find("#cards .item button").send_keys("a")
    browser.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
    browser.switch_to.active_element.send_keys("r")
    assert counter() == "1 accepted, 1 rejected, 8 undecided"
    fourth = browser.find_elements(By.CSS_SELECTOR, "#cards .item")[3]
    fourth.find_element(By.CSS_SELECTOR, "[data-decision='accept']").click()
    assert counter() == "2 accepted, 1 rejected, 7 undecided"
    find("#undo").click()
    assert counter() == "1 accepted, 1 rejected, 8 undecided"

    # filters and orders
    find("#decision [data-value='reject']").click()
    assert shown() == [names[2]]
    find("#decision [data-value='']").click()
    Select(find("#given")).select_by_value(str(issues.given[worst[1]]))
    assert set(shown()) == {issues.ids[n] for n in worst if issues.given[n] == issues.given[worst[1]]} != set(names)
    Select(find("#given")).select_by_index(0)
    find("#text").send_keys("ONERROR")
    assert shown() == [names[0]]
    find("#text").clear()
    find("#text").send_keys("x", Keys.BACKSPACE)
    Select(find("#sort")).select_by_value("loss")
    assert shown() == names[::-1]
    Select(find("#sort")).select_by_value("given")
    assert [int(issues.given[issues.ids.index(each)]) for each in shown()] == sorted(issues.given[worst])
    find("#turn").click()
    assert [int(issues.given[issues.ids.index(each)]) for each in shown()] == sorted(issues.given[worst])[::-1]

    # all of them at once, but not what is rejected; and back again
    find("#all").click()
    assert counter() == "9 accepted, 1 rejected, 0 undecided"
    find("body").send_keys("u")
    assert counter() == "1 accepted, 1 rejected, 8 undecided"

    # the decisions outlive the page, and leave it
    browser.refresh()
    assert counter() == "1 accepted, 1 rejected, 8 undecided"
    pressed = browser.find_elements(By.CSS_SELECTOR, "#cards [aria-pressed='true']")
    assert [each.text for each in pressed] == ["Accept", "Reject"]
    find("#download").click()
    downloaded, deadline = tmp_path / "decisions.csv", time.monotonic() + 60
    while not downloaded.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = {m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"}
    assert {url for url in asked if not url.startswith(("data:", "blob:"))} == {page.as_uri()}
    assert browser.get_log("browser") == []

    folder = audited(tmp_path / "audit", issues, root, "images")
    answer = cli("audit", "apply", folder, "--decisions", downloaded, "--out", tmp_path / "out" / "clean.csv")
    assert (answer.returncode, answer.stderr) == (0, "")
    assert "1 of 30 labels changed, 1 suggestion rejected" in answer.stdout
    cleaned = data.load(tmp_path / "out" / "clean.csv", test_share=0)  # a door, like any list of files
    found = {
        (tmp_path / "out" / name).resolve(): cleaned.class_names[label]
        for name, label in zip(cleaned.ids, cleaned.y_train, strict=True)
    }
    expected = {(root / each).resolve(): each.split("/")[0] for each in issues.ids}
    expected[(root / names[0]).resolve()] = issues.class_names[issues.suggested[worst[0]]]
    assert found == expected
    assert bytes_below(root) == before

    # where a browser forbids to remember, everything else works, and the page says so
    forbid = "Object.defineProperty(window, 'localStorage', {get() { throw new DOMException('no') }})"
    added = browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": forbid})
    browser.refresh()
    assert find("#forgets").is_displayed()
    find("#cards .item button").click()
    assert counter() == "1 accepted, 0 rejected, 9 undecided"
    find("#undo").click()
    browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)
    assert browser.get_log("browser") == []


def test_one_file_in_which_every_text_is_text():
    ids = [*HOSTILE, "plain"]
    issues = issues_of(ids, range(7), range(1, 8), np.linspace(0.9, 0.3, 7))
    rows = [dict.fromkeys(NAMES, f"<i>{n}</i>") for n in range(7)]
    marked = {"title": "<i>Labels</i>", "facts": {"<i>": "<i>"}, "notes": ["<i>note</i>"], "command": "<i>"}
    estimate = estimate_of(issues, ["the estimators <i>disagree</i>"])
    html = render_audit(page_of(issues, rows.__getitem__, estimate=estimate, **marked))
    assert "<i>" not in html.replace("<i></i>", "")  # the bar of the counter
    assert "</script><b>" not in html
    assert html.count("</script>") == 2
    assert "Take the rate with care:</strong> the estimators &lt;i&gt;disagree&lt;/i&gt;" in html
    assert [card["id"] for card in cards_in(html)] == ids
    assert cards_in(html)[0]["row"][2] == ["</script><b>two", "<i>0</i>"]
    for outside in ("http:", "https:", "src=", "@import", "url(", "<link", "fetch(", "XMLHttp"):
        for place in re.finditer(re.escape(outside), html):
            around = html[place.start() : place.start() + 60]
            assert around.startswith(("http://www.w3.org", "url(#", "src=x onerror")), around
    found = re.findall(r'\sid="([^"]+)"', html)
    assert len(found) == len(set(found))


def test_what_the_page_says_of_the_noise():
    issues = issues_of("abcdef", [0, 0, 0, 1, 1, 2], [1, 1, 2, 2, 1, 2], [0.9, 0.8, 0.7, 0.6, 0.1, 0.1], NAMES[:3])
    html = render_audit(page_of(issues, lambda n: {}))
    assert "Take the rate with care" not in html
    for text in ("21.0 %", "16.5 to 25.0 %", "17.0 to 24.0 %", "disagreement", "of 6 labels"):
        assert text in html
    counts = re.findall(r'data-given="(\d)" data-suggested="(\d)".*?<td class="right">(\d+)</td>', html, re.DOTALL)
    assert counts == [("0", "1", "2"), ("0", "2", "1"), ("1", "2", "1")]
    assert 'aria-label="transition matrix"' in html


def test_the_worst_are_shown_and_the_page_stays_small():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (600, 200, 150, 3), dtype=np.uint8)  # noise, which nothing can make small
    issues = issues_of(map(str, range(600)), [0] * 600, [1] * 600, rng.permutation(600) / 600)
    html = render_audit(page_of(issues, x.__getitem__))
    assert len(html) < 10_000_000
    assert [int(card["id"]) for card in cards_in(html)] == issues.worst_first[:500].tolist()
    assert "The worst 500 of 600 labels" in html
    few = render_audit(page_of(issues, x.__getitem__, shown=3))
    assert len(cards_in(few)) == 3
    width, height = (cards_in(few)[0]["picture"][side] for side in ("width", "height"))
    assert (width, height) == (120, 160)
    none = render_audit(page_of(issues_of("ab", [0, 1], [0, 1], [0.1, 0.2]), lambda n: {}))
    assert "No other label is suggested for any sample" in none


@pytest.mark.parametrize("channels", [(), (1,), (3,), (2,)])
@pytest.mark.parametrize("kind", ["bytes", "floats", "signed"])
def test_thumbnails_have_the_pixels_of_the_sample(channels, kind):
    pixels = np.array([[0, 51], [102, 255]], np.uint8)
    image = np.broadcast_to(pixels.reshape(2, 2, *[1] * len(channels)), (2, 2, *channels))
    if kind != "bytes":
        image = image.astype(np.float32) / 255
    if kind == "signed":
        image = 2 * image - 1
    issues = issues_of("a", [0], [1], [0.9])
    (card,) = cards_in(render_audit(page_of(issues, lambda n: image)))
    head, _, code = card["picture"]["src"].partition(",")
    assert head == "data:image/png;base64"
    drawn = Image.open(io.BytesIO(base64.b64decode(code)))
    assert drawn.mode == ("RGB" if channels == (3,) else "L")
    assert (np.abs(np.asarray(drawn.convert("L"), int) - pixels) <= 1).all()


def test_a_table_shows_its_own_values(tmp_path):
    (tmp_path / "t.csv").write_text("size,colour,kind\n1.50,red,cat\n,blue,\n2,green,dog\n3,red,cat\n")
    dataset = data.load(tmp_path / "t.csv", label="kind", test_share=0)
    look = looks(dataset, str(tmp_path / "t.csv"))
    assert dataset.ids == ("0", "2", "3")
    assert [dict(look(n)) for n in range(2)] == [{"size": "1.50", "colour": "red"}, {"size": "2", "colour": "green"}]


# Applying, without a browser. In all of these, row 1 is to be a dog and row 3 a cat; the second is not decided about.

CLASSES = ("cat", "dog", "elk")
BEFORE = ["cat", "cat", "dog", "dog"]


def pets(rows=4, names=CLASSES):
    """The audit of the labels cat, cat, dog, dog: it suggests dog for row 1 and cat for row 3."""
    given, suggested, score = [0, 0, 1, 1], [0, 1, 1, 0], [0.1, 0.95, 0.2, 0.7]
    return issues_of(map(str, range(rows)), given[:rows], suggested[:rows], score[:rows], names)


def applied(tmp_path, source, kind, label="", issues=None, out="clean"):
    """What `apply` makes of the source when row 1 is accepted; the source must stay what it was."""
    folder = audited(tmp_path / "audit", issues or pets(), source, kind, label)
    names = (issues or pets()).class_names
    decisions = decisions_in(tmp_path / "decisions.csv", ("1", names[0], names[1], "accept"))
    before = source.read_bytes()
    done = apply(folder, decisions, tmp_path / f"{out}{source.suffix}")
    assert (done.labels, done.changed, done.rejected) == (4, 1, 0)
    assert source.read_bytes() == before
    return done.out


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("t.csv", b"x,kind\n1,cat\n2,cat\n3,dog\n4,dog\n", b"x,kind\n1,cat\n2,dog\n3,dog\n4,dog\n"),
        (  # a byte order mark, Windows' line ends, needless quotes, a line break in a value, no last line end
            "t.csv",
            b'\xef\xbb\xbfx,"kind" ,y\r\n1, cat,"a"\r\n"2, ""b""\r\n",cat,"c"\r\n\r\n3,"dog","d"\r\n4,dog,e',
            b'\xef\xbb\xbfx,"kind" ,y\r\n1, cat,"a"\r\n"2, ""b""\r\n",dog,"c"\r\n\r\n3,"dog","d"\r\n4,dog,e',
        ),
        ("t.csv", b"kind;x\ncat;1,5\ncat;2\ndog;3\ndog;4\n", b"kind;x\ncat;1,5\ndog;2\ndog;3\ndog;4\n"),
        ("t.tsv", b"x\tkind\n1,1\tcat\n2\tcat\n3\tdog\n4\tdog\n", b"x\tkind\n1,1\tcat\n2\tdog\n3\tdog\n4\tdog\n"),
        (  # a row without a label is a row; labels are written as the table writes them
            "t.csv",
            b"x,kind\n1,1.0\n2,1.0\n3,2.0\n4,2.0\n5,\n",
            b"x,kind\n1,1.0\n2,2.0\n3,2.0\n4,2.0\n5,\n",
        ),
    ],
)
def test_apply_to_a_table(tmp_path, name, before, after):
    (tmp_path / name).write_bytes(before)
    names = ("1", "2") if b"1.0" in before else CLASSES
    out = applied(tmp_path, tmp_path / name, "table", "kind", pets(names=names))
    assert out.read_bytes() == after


def test_a_label_with_a_comma_is_quoted(tmp_path):
    (tmp_path / "t.csv").write_text('x,kind\n1,cat\n2,cat\n3,"dog, wild"\n4,"dog, wild"\n')
    out = applied(tmp_path, tmp_path / "t.csv", "table", "kind", pets(names=("cat", "dog, wild")))
    assert out.read_text().splitlines()[2] == '2,"dog, wild"'


def test_a_label_with_a_line_break_is_quoted(tmp_path):
    (tmp_path / "t.csv").write_text('x,kind\n1,cat\n2,cat\n3,"dog\nwild"\n4,"dog\nwild"\n')
    out = applied(tmp_path, tmp_path / "t.csv", "table", "kind", pets(names=("cat", "dog\nwild")))
    with out.open(newline="") as file:
        assert list(csv.reader(file))[2] == ["2", "dog\nwild"]


@pytest.mark.parametrize("kind", ["string", "dictionary", "int8", "float"])
def test_apply_to_parquet(tmp_path, kind):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    kinds = {"string": arrow.string(), "dictionary": arrow.dictionary(arrow.int8(), arrow.string())}
    kinds |= {"int8": arrow.int8(), "float": arrow.float64()}
    texts = kind in ("string", "dictionary")
    values = ["cat", "cat", "dog", "dog", None] if texts else [1, 1, 2, 2, None]
    labels = arrow.array(values, kinds["string"] if texts else kinds[kind]).cast(kinds[kind])
    table = arrow.table({"x": [1.5, 2.5, None, 4.5, 5.5], "kind": labels}).replace_schema_metadata({"by": "me"})
    parquet.write_table(table, tmp_path / "t.parquet")
    out = applied(tmp_path, tmp_path / "t.parquet", "table", "kind", pets(names=CLASSES if texts else ("1", "2")))
    cleaned = parquet.read_table(out)
    values[1] = values[2]
    assert cleaned.schema.equals(parquet.read_table(tmp_path / "t.parquet").schema, check_metadata=True)
    assert cleaned.column("kind").to_pylist() == values
    assert cleaned.column("x").equals(table.column("x"))


@pytest.mark.parametrize("name", ["y_train", "y", "Y"])
@pytest.mark.parametrize(
    "y", [np.array([0, 0, 1, 1], np.uint8), np.array([[0.0], [0], [1], [1]]), np.array(["cat", "cat", "dog", "dog"])]
)
def test_apply_to_arrays(tmp_path, name, y):
    x = np.random.default_rng(0).random((4, 3))
    arrays = {name: y, name.replace("y", "x").replace("Y", "X"): x, "more": np.arange(3), "y_test": y[:2]}
    np.savez_compressed(tmp_path / "a.npz", **arrays)
    out = applied(tmp_path, tmp_path / "a.npz", "arrays")
    expected = y.copy()
    expected[1] = y[2]
    with np.load(out) as found:
        assert set(found) == set(arrays)
        for each, was in arrays.items():
            np.testing.assert_array_equal(found[each], expected if each == name else was)
            assert found[each].dtype == was.dtype


def test_apply_to_a_pair_of_files(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((4, 2)))
    np.save(tmp_path / "y.npy", np.array([5, 5, 7, 7]))
    out = applied(tmp_path, tmp_path / "x.npy", "arrays", issues=pets(names=("5", "7")))
    assert np.load(out).tolist() == [5, 7, 7, 7]
    assert np.load(tmp_path / "y.npy").tolist() == [5, 5, 7, 7]


def test_apply_to_a_known_dataset(tmp_path, cli):
    digits = data.load("digits")
    given = digits.y_train.copy()
    given[7] = (given[7] + 1) % 10  # drawn wrong for the audit: the dataset itself is right
    ids = map(str, range(len(given)))
    issues = issues_of(ids, given, digits.y_train, 0.9 * (given != digits.y_train), digits.class_names)
    folder = audited(tmp_path / "audit", issues, "digits", "arrays")
    for least, right in (("0.95", False), ("0.9", True)):
        out = tmp_path / f"{least}.npz"
        assert cli("audit", "apply", folder, "--accept-above", least, "--out", out).returncode == 0
        np.testing.assert_array_equal(data.load(out).y_train, digits.y_train if right else given)


def test_scores_accept_and_rejections_win(tmp_path, cli):
    (tmp_path / "t.csv").write_text("x,kind\n1,cat\n2,cat\n3,dog\n4,dog\n")
    folder = audited(tmp_path / "audit", pets(), tmp_path / "t.csv", "table", "kind")
    rejected = decisions_in(tmp_path / "d.csv", ("1", "cat", "dog", "reject"), ("3", "dog", "cat", ""))

    def kinds(*words):
        out = tmp_path / f"{len(list(tmp_path.iterdir()))}.csv"
        answer = cli("audit", "apply", folder, "--out", out, "--json", *words)
        assert answer.returncode == 0, answer.stderr
        found = [line.split(",")[1] for line in out.read_text().splitlines()[1:]]
        assert json.loads(answer.stdout)["changed"] == sum(a != b for a, b in zip(found, BEFORE, strict=True))
        return found

    assert kinds("--accept-above", "0.95") == ["cat", "dog", "dog", "dog"]
    assert kinds("--accept-above", "0.7") == ["cat", "dog", "dog", "cat"]
    assert kinds("--accept-above", "0.0") == ["cat", "dog", "dog", "cat"]
    assert kinds("--accept-above", "0.7", "--decisions", rejected) == ["cat", "cat", "dog", "cat"]
    assert kinds("--decisions", rejected) == BEFORE


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([("9", "cat", "dog", "accept")], "line 2: the audit has no '9'"),
        ([("0", "cat", "cat", "reject"), ("1", "dog", "cat", "accept")], "line 3: '1' was not given 'dog'"),
        ([("1", "cat", "emu", "accept")], "line 2: 'emu' is no class of the audit: take one of cat, dog"),
        ([("1", "cat", "dog", "maybe")], "line 2: the decision is 'maybe': it must be accept or reject"),
        ([("1", "cat", "dog", "accept"), ("1", "cat", "dog", "reject")], "line 3: '1' is decided in two ways"),
    ],
)
def test_decisions_that_do_not_fit_are_named(tmp_path, cli, rows, reason):
    (tmp_path / "t.csv").write_text("x,kind\n1,cat\n2,cat\n3,dog\n4,dog\n")
    folder = audited(tmp_path / "audit", pets(), tmp_path / "t.csv", "table", "kind")
    decisions_in(tmp_path / "d.csv", *rows)
    answer = cli("audit", "apply", folder, "--decisions", "d.csv", "--out", "clean.csv")
    assert (answer.returncode, answer.stdout) == (1, "")
    assert reason in answer.stderr
    assert answer.stderr.count("\n") == 1
    assert not (tmp_path / "clean.csv").exists()


def test_decisions_may_give_a_third_label_and_come_from_a_spreadsheet(tmp_path, cli):
    (tmp_path / "t.csv").write_text("x,kind\n1,cat\n2,cat\n3,dog\n4,dog\n5,elk\n")
    issues = issues_of("01234", [0, 0, 1, 1, 2], [0, 1, 1, 0, 2], [0.1, 0.95, 0.2, 0.7, 0.1], ("cat", "dog", "elk"))
    folder = audited(tmp_path / "audit", issues, tmp_path / "t.csv", "table", "kind")
    (tmp_path / "d.csv").write_text("id;given_label;suggested_label;decision\n1;cat;elk;accept\n3;dog;cat;reject\n")
    assert cli("audit", "apply", folder, "--decisions", "d.csv", "--out", "clean.csv").returncode == 0
    assert (tmp_path / "clean.csv").read_text() == "x,kind\n1,cat\n2,elk\n3,dog\n4,dog\n5,elk\n"


def test_data_that_changed_since_the_audit_are_not_corrected_by_it(tmp_path, cli):
    table = tmp_path / "t.csv"
    table.write_text("x,kind\n1,cat\n2,cat\n3,dog\n4,dog\n")
    folder = audited(tmp_path / "audit", pets(), table, "table", "kind")
    about = json.loads((folder / "audit.json").read_text())
    about["data_sha256"] = data.load(table, label="kind", test_share=0).fingerprint
    (folder / "audit.json").write_text(json.dumps(about))
    table.write_text("x,kind\n2,cat\n1,cat\n3,dog\n4,dog\n")  # two rows of one label have changed places
    answer = cli("audit", "apply", folder, "--accept-above", "0.5", "--out", "clean.csv")
    assert answer.returncode == 1
    assert "has changed since the audit: audit it again" in answer.stderr
    table.write_text("x,kind\n1,cat\n2,cat\n3,dog\n4,dog\n")
    assert cli("audit", "apply", folder, "--accept-above", "0.5", "--out", "clean.csv").returncode == 0


def test_scores_of_networks_that_know_nothing_are_not_applied(tmp_path, cli):
    (tmp_path / "t.csv").write_text("x,kind\n1,cat\n2,cat\n3,dog\n4,dog\n")
    folder = audited(tmp_path / "audit", pets(), tmp_path / "t.csv", "table", "kind")
    about = json.loads((folder / "audit.json").read_text()) | {"noise_rate": {"blind": True}}
    (folder / "audit.json").write_text(json.dumps(about))
    answer = cli("audit", "apply", folder, "--accept-above", "0.5", "--out", "clean.csv")
    assert (answer.returncode, "decide by hand" in answer.stderr) == (2, True)


def test_a_file_that_no_audit_wrote_stays(tmp_path, cli):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "label_issues.csv").write_text("mine\n")
    answer = cli("audit", "digits", "--out", "out")
    assert (answer.returncode, "is there already, of no audit" in answer.stderr) == (2, True)
    assert (tmp_path / "out" / "label_issues.csv").read_text() == "mine\n"


def test_what_cannot_be_applied_is_said_in_one_line(tmp_path, cli):
    table = tmp_path / "t.csv"
    table.write_text("x,kind\n1,cat\n2,cat\n3,dog\n4,dog\n")
    folder = audited(tmp_path / "audit", pets(), table, "table", "kind")
    decisions_in(tmp_path / "d.csv", ("1", "cat", "dog", "accept"))
    np.save(tmp_path / "d.npy", np.arange(3))

    def refused(code, reason, *words):
        answer = cli("audit", "apply", *words)
        assert answer.returncode == code, answer
        assert reason in answer.stderr
        assert answer.stderr.count("\n") == 1
        assert not (tmp_path / "clean.csv").exists()

    refused(2, "nothing to apply", folder, "--out", "clean.csv")
    refused(2, "go into a .csv file", folder, "--decisions", "d.csv", "--out", "clean.npz")
    refused(2, "t.csv is there already", folder, "--decisions", "d.csv", "--out", "t.csv")
    refused(2, "a score lies between 0 and 1", folder, "--accept-above", "95", "--out", "clean.csv")
    refused(1, "cannot read none.csv", folder, "--decisions", "none.csv", "--out", "clean.csv")
    refused(1, "has no column id", folder, "--decisions", "t.csv", "--out", "clean.csv")
    refused(1, "is no CSV file in UTF-8", folder, "--decisions", "d.npy", "--out", "clean.csv")
    refused(1, "holds no audit", tmp_path, "--decisions", "d.csv", "--out", "clean.csv")
    for changed, reason in (
        ("x,kind\n1,cat\n2,cat\n3,dog\n4,cat\n", "row 3 of"),
        ("x,kind\n1,cat\n2,cat\n3,dog\n", "has 3 rows, the audit saw row 3"),
        ("x,sort\n1,cat\n2,cat\n3,dog\n4,dog\n", "has no column 'kind' any more"),
        ("", "t.csv is damaged"),
    ):
        table.write_text(changed)
        refused(1, reason, folder, "--decisions", "d.csv", "--out", "clean.csv")
    table.unlink()
    refused(1, "say where the data are now with --data", folder, "--decisions", "d.csv", "--out", "clean.csv")


def test_a_file_that_is_listed_twice_has_two_labels(tmp_path, cli):
    (tmp_path / "lists").mkdir()
    for name in ("a.png", "b.png"):
        (tmp_path / "lists" / name).touch()
    listed = issues_of(["a.png", "a.png", "b.png"], [0, 1, 1], [1, 1, 0], [0.9, 0.1, 0.8], CLASSES)
    folder = audited(tmp_path / "audit", listed, tmp_path / "lists" / "all.csv", "images")
    decisions_in(tmp_path / "d.csv", ("a.png", "cat", "dog", "reject"), ("b.png", "dog", "cat", "accept"))
    assert cli("audit", "apply", folder, "--decisions", "d.csv", "--out", "clean.csv").returncode == 0
    lines = (tmp_path / "clean.csv").read_text().splitlines()
    assert lines == ["file,label", "lists/a.png,cat", "lists/a.png,dog", "lists/b.png,cat"]


def test_data_that_were_moved_since_the_audit_are_found_by_their_new_place(tmp_path, cli):
    ids = ["cat/0.png", "cat/1.png", "dog/2.png", "dog/3.png"]
    for each in ids:
        (tmp_path / "now" / each).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "now" / each).touch()
    images = issues_of(ids, [0, 0, 1, 1], [0, 1, 1, 0], [0.1, 0.95, 0.2, 0.7], CLASSES)
    folder = audited(tmp_path / "audit", images, tmp_path / "then", "images")
    words = "audit", "apply", folder, "--accept-above", "0.9", "--out", "clean.csv"
    lost = cli(*words)
    assert (lost.returncode, lost.stdout) == (1, "")
    assert "none of the audited images is in" in lost.stderr
    assert lost.stderr.endswith("say where they are now with --data\n")
    (tmp_path / "now" / "dog" / "3.png").unlink()
    decisions_in(tmp_path / "d.csv", ("dog/3.png", "dog", "cat", "accept"))
    found = cli(*words, "--data", "now", "--decisions", "d.csv")
    assert found.returncode == 0, found.stderr
    assert "1 of 3 labels changed" in found.stdout
    assert "1 audited image is not there any more and is left out" in found.stdout
    lines = (tmp_path / "clean.csv").read_text().splitlines()
    assert lines == ["file,label", "now/cat/0.png,cat", "now/cat/1.png,dog", "now/dog/2.png,dog"]


def test_a_table_and_a_pair_of_files_may_be_moved_too(tmp_path, cli):
    (tmp_path / "now").mkdir()
    (tmp_path / "now" / "t.csv").write_text("x,kind\n1,cat\n2,cat\n3,dog\n4,dog\n")
    np.save(tmp_path / "now" / "x.npy", np.zeros((4, 2)))
    np.save(tmp_path / "now" / "y.npy", np.array([5, 5, 7, 7]))
    table = audited(tmp_path / "of_table", pets(), tmp_path / "then" / "t.csv", "table", "kind")
    arrays = pets(names=("5", "7"))
    pair = audited(
        tmp_path / "of_pair", arrays, tmp_path / "then" / "x.npy", "arrays", str(tmp_path / "then" / "y.npy")
    )
    for folder, now, out in ((table, "now/t.csv", "clean.csv"), (pair, "now/x.npy", "clean.npy")):
        words = "audit", "apply", folder, "--accept-above", "0.9", "--out", out
        assert "is not there any more: say where the data are now with --data" in cli(*words).stderr
        assert cli(*words, "--data", now).returncode == 0
    assert (tmp_path / "clean.csv").read_text().splitlines()[2] == "2,dog"
    assert np.load(tmp_path / "clean.npy").tolist() == [5, 7, 7, 7]
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "now" / "x.npy").rename(tmp_path / "elsewhere" / "x.npy")  # the labels stay where they were audited
    (tmp_path / "now").rename(tmp_path / "then")
    words = "audit", "apply", pair, "--accept-above", "0.9", "--out", "again.npy", "--data", "elsewhere/x.npy"
    assert cli(*words).returncode == 0
    assert np.load(tmp_path / "again.npy").tolist() == [5, 7, 7, 7]


@pytest.mark.parametrize(
    ("audited_as", "kind", "now", "code", "reason"),
    [
        ("t.csv", "table", "x.npy", 2, "the audit is one of t.csv, and x.npy is of another kind"),
        ("photos", "images", "t.csv", 2, "the audit is one of photos, and t.csv is of another kind"),
        ("photos", "images", "nowhere", 1, "nowhere does not exist: say with --data where"),
        ("digits", "arrays", "t.csv", 2, "the audit is one of digits, which is known by its name: leave --data out"),
    ],
)
def test_another_place_that_cannot_be_that_of_the_data_is_refused(tmp_path, cli, audited_as, kind, now, code, reason):
    for name in ("t.csv", "x.npy"):
        (tmp_path / name).touch()
    folder = audited(tmp_path / "audit", pets(), audited_as, kind)
    out = "clean.npz" if audited_as == "digits" else "clean.csv"
    answer = cli("audit", "apply", folder, "--accept-above", "0.9", "--out", out, "--data", now)
    assert (answer.returncode, answer.stderr.count("\n")) == (code, 1)
    assert reason in answer.stderr


def test_a_folder_with_a_dot_in_its_name_may_be_moved(tmp_path, cli):
    (tmp_path / "photos-1.1" / "cat").mkdir(parents=True)
    (tmp_path / "photos-1.1" / "cat" / "0.png").touch()
    issues = issues_of(["cat/0.png"], [0], [1], [0.9], CLASSES)
    folder = audited(tmp_path / "audit", issues, tmp_path / "photos-1.0", "images")
    words = "audit", "apply", folder, "--accept-above", "0.5", "--out", "clean.csv", "--data", "photos-1.1"
    assert cli(*words).returncode == 0


def test_a_list_of_images_by_whole_paths_or_with_backslashes(tmp_path, cli):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "0.png").touch()
    accept = "--accept-above", "0.5", "--out"
    issues = issues_of(["photos\\0.png"], [0], [1], [0.9], CLASSES)
    folder = audited(tmp_path / "windows", issues, tmp_path / "list.csv", "images")
    assert cli("audit", "apply", folder, *accept, "clean.csv").returncode == 0
    assert (tmp_path / "clean.csv").read_text() == "file,label\nphotos/0.png,dog\n"
    issues = issues_of([str(tmp_path / "then" / "0.png")], [0], [1], [0.9], CLASSES)
    folder = audited(tmp_path / "whole", issues, tmp_path / "list.csv", "images")
    answer = cli("audit", "apply", folder, *accept, "other.csv")
    assert (answer.returncode, answer.stderr.count("\n")) == (1, 1)
    assert "for it names whole paths: audit it anew" in answer.stderr
