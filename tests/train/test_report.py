"""Reports: what they show, and runs whose files want to do harm."""

import base64
import hashlib
import http.client
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from tests.train import launch_programs as programs
from weft.train import launch, report, writers
from weft.train.report import events, page, reading
from weft.train.report.making import main

BROWSER = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chrome")
EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'`${1}&lt;"


def line(step, **values):
    return json.dumps({"kind": "scalars", "step": step, "time": 1.0, "values": values}) + "\n"


def plain_run(folder, text):
    folder.mkdir(parents=True)
    data = text if isinstance(text, bytes) else text.encode()
    (folder / "metrics.jsonl").write_bytes(data)


def shown(folder):
    """The data in the page of a folder."""
    text = report.make_report(folder, folder.parent / "page.html").read_text(encoding="utf-8")
    return json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])


def curve(data, run, metric):
    return data["runs"][run]["curves"][str(data["metrics"].index(metric))]


def test_an_experiment(tmp_path):
    folder = tmp_path / "sweep"
    with launch.create_experiment(folder, title="A sweep", verbose=False) as experiment:
        for rate in (0.1, 0.3):
            experiment.add(programs.climb, {"rate": rate, "steps": 3})
        experiment.add(programs.fail, {"how": "raise"})
        waiting = experiment.add(programs.fail, {"how": "sleep"})
        waiting.stop()
    data = shown(folder)
    assert data["title"] == "A sweep" and data["metrics"] == ["loss"]
    assert [run["state"] for run in data["runs"]] == ["completed", "completed", "failed", "stopped"]
    assert [run["name"] for run in data["runs"]] == ["0001", "0002", "0003", "0004"]
    assert data["runs"][0]["config"] == {"rate": 0.1, "steps": 3}
    assert curve(data, 0, "loss") == [[1, 2, 3], [1.2, 0.7, 0.5333333]]
    assert data["runs"][1]["least"] == {"0": 0.3333333}
    failed = data["runs"][2]
    assert failed["error"] == "ValueError: a <bad> thing" and "raise ValueError" in failed["stderr"]
    assert failed["environment"]["host"] and failed["executable"].endswith("launch_programs:fail")


def test_plain_folders(tmp_path):
    folder = tmp_path / "plain"
    with writers.create_default_writer(folder / "a" / "deep", total_steps=3) as writer:
        writer.write_hparams({"rate": 0.5})
        writer.write_scalars(1, {"loss": 2.0})
        writer.write_scalars(2, {"loss": float("nan")})
        writer.write_images(1, {"faces": np.zeros((2, 4, 4, 1))})
        writer.write_images(2, {"faces": np.ones((6, 4, 4, 3))})
    text = (
        '{"step": 1, "loss": 3}\n{"step": 2, "loss": 1, "accuracy": 0.5}\n{"step": 1, "loss": 4}\n'
    )
    plain_run(folder / "b", text)
    (folder / "b" / "artefacts").mkdir()
    (folder / "b" / "artefacts" / "a.png").write_bytes(writers.encode_png(np.zeros((2, 2, 1))))
    (folder / "b" / "artefacts" / "b.png").write_bytes(b"<svg onload=alert(1)>")
    data = shown(folder)
    assert data["metrics"] == ["accuracy", "loss"]
    assert [run["name"] for run in data["runs"]] == [os.path.join("a", "deep"), "b"]
    assert data["runs"][0]["config"] == {"rate": 0.5}
    assert curve(data, 0, "loss") == [[1, 2], [2.0, "nan"]]
    assert curve(data, 1, "loss") == [[1, 2], [4.0, 1.0]]  # the last value of a step
    pictures = data["runs"][0]["pictures"]
    assert [(one["tag"], one["step"]) for one in pictures] == [("faces", 2)] * 4
    assert base64.b64decode(pictures[0]["png"]) == writers.encode_png(np.ones((4, 4, 3)))
    assert [one["tag"] for one in data["runs"][1]["pictures"]] == ["a.png"]
    assert data["runs"][1]["files"] == ["a.png", "b.png"]
    alone = tmp_path / "alone"
    plain_run(alone, line(1, loss=1.0))
    assert [run["name"] for run in shown(alone)["runs"]] == ["."]


def hostile(folder):
    """Runs whose names, settings, metrics, errors and pictures are all of them attacks."""
    name = EVIL.replace("/", "∕")
    plain_run(folder / name, line(1, **{EVIL: 1.0, "__proto__": 2.0, "constructor": 3.0}))
    settings = {EVIL: EVIL, "__proto__": {"polluted": True}, "toString": "x"}
    with open(folder / name / "metrics.jsonl", "a") as file:
        file.write(json.dumps({"kind": "hparams", "step": None, "time": 0, "values": settings}))
    with writers.TensorBoardWriter(folder / name) as writer:
        writer.write_images(1, {EVIL: np.zeros((4, 4, 1))})
    run = folder / "runs" / "0001"
    attempt = run / "attempts" / "1"
    attempt.mkdir(parents=True)
    unit = {"id": 1, "key": EVIL, "args": {EVIL: EVIL}, "executable": {"name": EVIL}}
    (run / "unit.json").write_text(json.dumps(unit))
    git = {"commit": EVIL, "changed": True}
    begun = {"started": "soon", "environment": {"host": EVIL, "python": [EVIL]}, "git": git}
    (attempt / "attempt.json").write_text(json.dumps(begun))
    ended = {"state": EVIL, "error": EVIL, "result": {EVIL: EVIL}, "ended": 1e400, "devices": EVIL}
    (attempt / "exit.json").write_text(json.dumps(ended))
    (attempt / "stderr.txt").write_text(EVIL)
    (folder / "experiment.json").write_text(json.dumps({"title": EVIL}))


def test_nothing_from_a_run_becomes_markup(tmp_path):
    folder = tmp_path / "hostile"
    hostile(folder)
    text = report.make_report(folder).read_text(encoding="utf-8")
    assert "alert(1)</script>" not in text and "<img" not in text
    assert len(re.findall("<script", text)) == len(re.findall("</script", text)) == 2
    title = re.search("<title>(.*?)</title>", text)[1]
    assert "<" not in title and "&lt;/script&gt;" in title
    block = re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1]
    assert not set("<>&'") & set(block) and block.isascii()
    data = json.loads(block)
    assert data["title"].startswith("</script>") and EVIL in data["metrics"]
    launched = next(run for run in data["runs"] if run["name"] == "0001")
    assert launched["state"] == "failed" and launched["error"] == EVIL
    assert launched["ended"] is None and launched["started"] is None


def test_the_policy_allows_the_pages_own_script_alone(tmp_path):
    text = page.render({"title": "t", "metrics": [], "runs": [], "notes": []})
    script = re.search(r"<script>(.*?)</script>", text, re.DOTALL)[1]
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)[1]
    rules = re.search('Policy" content="(.*?)"', text)[1].replace("&#x27;", "'")
    for part in (script, style):
        digest = base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in rules
    assert "default-src 'none'" in rules and "unsafe" not in rules and "http" not in rules
    assert not re.search(r"innerHTML|insertAdjacent|document\.write|eval\(|new Function", script)
    # addresses: none is loaded but the live page's own data
    assert not re.search(r"(src|href)=\"(?!data:)", text) and "://" not in script + style
    # every element that the script asks for is in the page
    asked = set(re.findall(r'byId\("([^"]+)"\)', script))
    assert len(asked) > 20 and asked <= set(re.findall(r'id="([^"]+)"', text))


def test_damaged_metrics(tmp_path):
    folder = tmp_path / "damaged"
    parts = [
        line(1, loss=1.0),
        '{"kind": "scalars", "step": 2, "time": 1, "values": {"loss": NaN, "big": Infinity}}\n',
        line(3, loss="nan", big="-inf", text="hello", flag=True, none=None, many=[1]),
        '{"kind": "scalars", "step": 4, "values": {"loss": ' + "1" * 400 + "}}\n",
        '{"kind": "scalars", "step": 4.5, "values": {"loss": ' + "1" * 5000 + "}}\n",
        '{"kind": "scalars", "step": "x", "values": {"loss": 1}}\n',
        '{"kind": "scalars", "step": NaN, "values": {"loss": 1}}\n',
        '{"kind": "scalars", "step": 5, "values": 7}\n',
        '{"kind": {}, "step": 5, "values": {}}\n',
        "[1, 2]\nnull\n3\n\n  \n",
        "[" * 100_000 + "\n",
        '{"a":' * 50_000 + "\n",
        '"' + "x" * 3_000_000 + '"\n',
        line(6, loss=0.5),
        line(7, loss=0.25)[:-20],
    ]
    data = "".join(parts).encode() + b"\xff\xfe\x00\n" + line(8, loss=0.125).encode()
    plain_run(folder / "run", data + b'{"kind": "scal')
    found = shown(folder)
    assert curve(found, 0, "loss") == [
        [1, 2, 3, 4, 6, 8],
        [1.0, "nan", "nan", "inf", 0.5, 0.125],
    ]
    assert curve(found, 0, "flag") == [[3], [1.0]]
    assert found["metrics"] == ["big", "flag", "loss"] and "left out" in found["notes"][0]


def test_nothing_outside_the_folder_is_read(tmp_path):
    folder, outside = tmp_path / "report", tmp_path / "outside"
    plain_run(outside, line(1, secret=42.0))
    (outside / "exit.json").write_text('{"state": "failed", "error": "secret"}')
    (outside / "picture.png").write_bytes(writers.encode_png(np.zeros((2, 2, 1))))
    folder.mkdir()
    (folder / "linked").symlink_to(outside)
    for name in ("a", "b"):
        (folder / name).mkdir()
    (folder / "a" / "metrics.jsonl").symlink_to(outside / "metrics.jsonl")
    (folder / "b" / "unit.json").write_text("{}")
    (folder / "b" / "attempts").mkdir()
    (folder / "b" / "attempts" / "1").symlink_to(outside)
    (folder / "b" / "artefacts").symlink_to(outside)
    (folder / "pipe").mkdir()
    os.mkfifo(folder / "pipe" / "metrics.jsonl")  # must not be waited for
    os.mkfifo(folder / "pipe" / "events.out.tfevents.1")
    text = report.make_report(folder).read_text(encoding="utf-8")
    block = re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1]
    assert "secret" not in block and "42" not in block and "png" not in block.replace('"png"', "")
    data = json.loads(block)
    assert sorted(run["name"] for run in data["runs"]) == ["a", "b", "pipe"]


def test_damaged_pictures(tmp_path):
    with writers.TensorBoardWriter(tmp_path) as writer:
        writer.write_images(3, {"a": np.random.rand(4, 8, 8, 3)})
    content = bytearray(pathlib.Path(writer.path).read_bytes())
    with open(writer.path, "rb") as file:
        assert len(next(events.pictures(file))[2]) == 4
    source = np.random.RandomState(0)
    for _ in range(300):
        broken = bytearray(content)
        for place in source.randint(len(broken), size=source.randint(1, 8)):
            broken[place] = source.randint(256)
        path = tmp_path / "broken"
        path.write_bytes(broken[: source.randint(1, len(broken) + 1)])
        with open(path, "rb") as file:
            for _, step, found in events.pictures(file):
                assert isinstance(step, int) and all(one.startswith(events.PNG) for one in found)


def test_a_thousand_runs(tmp_path):
    folder = tmp_path / "many"
    text = "".join(line(step, loss=1 / step, accuracy=0.5) for step in range(1, 61))
    for number in range(1000):
        plain_run(folder / f"run{number:04}", text)
    start = time.process_time()
    path = report.make_report(folder)
    assert time.process_time() - start < 20
    assert 1e6 < path.stat().st_size < 20e6


def test_long_curves_are_thinned_and_keep_their_extremes():
    steps = list(range(10_000))
    values = [0.0] * 10_000
    values[5_000], values[7_777] = 9.0, float("inf")
    kept = reading.thin(steps, values, 100)
    assert len(kept[0]) <= 100 and 9.0 in kept[1] and kept[0] == sorted(kept[0])


@pytest.fixture
def server(tmp_path):
    folder = tmp_path / "served"
    hostile(folder)
    (tmp_path / "secret.txt").write_text("secret")
    made = report.ReportServer(folder, port=0, allowed=("reports.example",))
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


def ask(server, path, method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    connection.putrequest(method, path, skip_host="Host" in headers)
    for name, value in headers.items():
        for one in [value] if isinstance(value, str) else value:
            connection.putheader(name.replace("_", "-"), one)
    connection.endheaders()
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer, body


def test_the_server_answers_two_addresses(server, tmp_path):
    assert server.server_address[0] == "127.0.0.1"
    answer, body = ask(server, "/")
    assert answer.status == 200 and b"<!doctype html>" in body and b"alert(1)</script>" not in body
    headers = dict(answer.getheaders())
    assert "script-src 'sha256-" in headers["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff" and headers["X-Frame-Options"] == "DENY"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert not any(name.lower().startswith("access-control") for name in headers)
    answer, body = ask(server, "/data.json")
    assert (
        answer.getheader("Content-Type") == "application/json"
        and len(json.loads(body)["runs"]) == 2
    )
    again, empty = ask(server, "/data.json", If_None_Match=answer.getheader("ETag"))
    assert again.status == 304 and empty == b""
    head, empty = ask(server, "/", method="HEAD")
    assert head.status == 200 and empty == b"" and int(head.getheader("Content-Length")) > 1000
    wrong = "/../secret.txt /..%2fsecret.txt /%2e%2e/secret.txt //etc/passwd /runs/0001/unit.json"
    wrong += " /experiment.json /data.json/../../secret.txt /?x=/etc/passwd /. * /\\..\\secret.txt"
    for path in wrong.split():
        answer, body = ask(server, path)
        assert answer.status == 404 and b"secret" not in body, path
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH"):
        assert ask(server, "/", method=method)[0].status == 501


def test_the_server_refuses_other_host_names(server):
    port = server.server_port
    fine = ["localhost", f"localhost:{port}", f"127.0.0.1:{port}", f"[::1]:{port}", "[::1]"]
    for host in [*fine, f"LOCALHOST:{port}", "reports.example"]:
        assert ask(server, "/data.json", Host=host)[0].status == 200, host
    wrong = [
        "evil.example",
        f"evil.example:{port}",
        f"127.0.0.1.evil.example:{port}",
        "",
        "localhost:1",
    ]
    for host in [*wrong, f"localhost@evil:{port}", ["localhost", "evil.example"]]:
        answer, body = ask(server, "/data.json", Host=host)
        assert answer.status == 403 and b"runs" not in body, host


def test_a_server_for_other_machines_takes_addresses_but_no_names(tmp_path):
    with report.ReportServer(tmp_path, "0.0.0.0", port=0) as made:
        port = made.server_port
        assert made.knows_host([f"192.0.2.7:{port}"]) and made.knows_host([f"[2001:db8::1]:{port}"])
        for host in ("evil.example", "192.0.2.7.evil.example", "[evil]", "192.0.2.7:1", "::1"):
            assert not made.knows_host([host]), host
    with report.ReportServer(tmp_path, port=0) as made:
        assert not made.knows_host([f"192.0.2.7:{made.server_port}"])


def test_the_served_data_follows_the_runs(server):
    folder = pathlib.Path(server.reader.folder)
    before = len(server.data()[0]["runs"])
    plain_run(folder / "later", line(1, loss=1.0))
    with open(folder / "later" / "metrics.jsonl", "a") as file:
        end = time.monotonic() + 30
        while len(server.data()[0]["runs"]) == before and time.monotonic() < end:
            time.sleep(0.1)
        file.write(line(2, loss=0.5))
        file.flush()
        while time.monotonic() < end:
            data = server.data()[0]
            place = next(i for i, run in enumerate(data["runs"]) if run["name"] == "later")
            index = data["metrics"].index("loss")
            if data["runs"][place]["curves"][index][0] == [1, 2]:
                return
            time.sleep(0.1)
    raise AssertionError("the second line was not shown")


def test_the_command(tmp_path, capsys):
    plain_run(tmp_path / "runs" / "a", line(1, loss=1.0))
    assert main([str(tmp_path / "runs"), "-o", str(tmp_path / "x.html")]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "x.html")
    with pytest.raises(SystemExit):
        main([str(tmp_path / "missing")])
    assert "is not a folder" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([str(tmp_path / "runs"), "-o", str(tmp_path / "no" / "x.html")])
    assert "cannot be written" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([str(tmp_path / "runs"), "--serve", "--port", "99999"])
    assert "cannot listen" in capsys.readouterr().err
    with pytest.raises(NotADirectoryError, match="is not a folder"):
        report.make_report(tmp_path / "x.html")


def browse(*options):
    """Run a headless browser that reaches no network."""
    fixed = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --hide-scrollbars"
    fixed += " --disable-background-networking --disable-component-update --disable-sync"
    command = [BROWSER, *fixed.split(), "--virtual-time-budget=3000", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


@pytest.mark.skipif(BROWSER is None, reason="needs Chromium or Chrome to look at the page")
def test_in_a_browser(tmp_path):
    """Screenshots of both widths go where pytest keeps the test's files."""
    hostile(tmp_path / "runs")
    address = report.make_report(tmp_path / "runs", tmp_path / "page.html").as_uri()
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    document = browse(profile, "--dump-dom", address)
    assert len(re.findall(r'<tr class="?"?>|<tr>', document.partition('id="rows"')[2])) >= 2
    assert '<img src="data:image/png;base64,' in document and "onerror=" not in re.sub(
        "&lt;.*?&gt;", "", document.partition('id="data"')[0]
    )
    assert document.count("<canvas") == 2 * len(shown(tmp_path / "runs")["metrics"])
    for name, size in (("desktop", "1400,1000"), ("phone", "500,1000")):
        picture = tmp_path / f"{name}.png"
        browse(profile, f"--window-size={size}", f"--screenshot={picture}", address)
        assert picture.read_bytes().startswith(events.PNG) and picture.stat().st_size > 10_000


def test_the_module_runs(tmp_path):
    plain_run(tmp_path / "a", line(1, loss=1.0))
    command = [sys.executable, "-m", "weft.train.report", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(tmp_path / "report.html")
