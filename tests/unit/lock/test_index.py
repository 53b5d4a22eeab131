"""The index client against a server on loopback: both formats, tags of wheels, and failures of a network."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from envbuilder.errors import NetworkError, UsageError
from envbuilder.lock.index import Index, IndexFile, default_index
from tests.helpers.web_server import Server, cut, files, reply, serving

FILES = [
    ("demo-1.0-cp310-cp310-manylinux_2_28_aarch64.whl", None),
    ("demo-1.0-cp311-cp311-manylinux2014_x86_64.whl", None),
    ("demo-1.1-py3-none-any.whl", "broken"),
    ("demo-1.2.tar.gz", None),
    ("demo-2.0-cp38-abi3-manylinux_2_17_aarch64.manylinux2014_aarch64.whl", None),
    ("demo-1.0.win32.exe", None),
    ("not a file name", None),
]
HTML = "<html><body>" + "".join(
    f'<a href="../../files/{name}#sha256=00"{f" data-yanked={reason!r}" if reason else ""}>{name}</a>' for name, reason in FILES
) + "</body></html>"  # fmt: skip
JSON = json.dumps(
    {"files": [{"filename": name, "url": f"../../files/{name}", "yanked": reason or False} for name, reason in FILES]}
)


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(lambda handler, _: reply(handler, 200, HTML)) as running:
        yield running


def index(server: Server, **settings: object) -> Index:
    return Index(server.url, back_off=0.01, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(("body", "kind"), [(HTML, "text/html"), (JSON, "application/vnd.pypi.simple.v1+json")])
def test_both_formats_give_the_same_files(server: Server, body: str, kind: str) -> None:
    server.answer = lambda handler, _: reply(handler, 200, body, kind)
    assert index(server).versions("Demo") == ["1.0", "1.1", "1.2", "2.0"]
    assert [file.yanked for file in index(server).files("demo")] == [None, None, "broken", None, None]


@pytest.mark.parametrize(
    ("version", "python", "arch", "severity", "text"),
    [
        ("1.0", "3.10", "aarch64", None, ""),
        ("1.0", "3.11", "aarch64", "error", "no wheel of 1.0 for Python 3.11 on aarch64; the index has: cp310-manylinux_2_28_aarch64"),
        ("1.1", "3.11", "x86_64", "warning", "1.1 was yanked"),
        ("1.2", "3.11", "aarch64", "warning", "only a source archive of 1.2"),
        ("2.0", "3.11", "aarch64", None, ""),
        ("2.0", "3.7", "aarch64", "error", "no wheel of 2.0"),
        ("3.0", "3.11", "aarch64", "error", "has no 3.0; it has 1.1, 1.2, 2.0"),
    ],
)  # fmt: skip
def test_judging_a_version(
    server: Server, version: str, python: str, arch: str, severity: str | None, text: str
) -> None:
    found = list(index(server).judge("demo", version, python, arch))
    assert [item[0] for item in found] == ([severity] if severity else [])
    assert text in "".join(item[1] for item in found)


@pytest.mark.parametrize(
    ("tags", "fits"),
    [
        ("cp311-cp311-manylinux_2_35_aarch64", True),
        ("cp311-cp311-manylinux_2_17_aarch64.manylinux2014_aarch64", True),
        ("cp311-cp311-manylinux2014_aarch64", True),
        ("cp311-cp311-linux_aarch64", True),
        ("cp311-none-manylinux_2_28_aarch64", True),
        ("cp38-abi3-manylinux_2_28_aarch64", True),
        ("cp310.cp311-cp310.cp311-manylinux_2_28_aarch64", True),
        ("py3-none-any", True),
        ("py2.py3-none-any", True),
        ("py310-none-any", True),
        ("py3-none-manylinux_2_17_aarch64", True),
        ("cp311-cp311-manylinux_2_36_aarch64", False),
        ("cp311-cp311-manylinux_2_39_aarch64", False),
        ("py3-none-manylinux_2_39_aarch64", False),
        ("cp311-cp311t-manylinux_2_28_aarch64", False),
        ("cp311-cp311d-manylinux_2_28_aarch64", False),
        ("cp312-abi3-manylinux_2_28_aarch64", False),
        ("cp310-cp310-manylinux_2_28_aarch64", False),
        ("cp310-none-any", False),
        ("py2-none-any", False),
        ("py312-none-any", False),
        ("pp311-pypy311_pp73-manylinux_2_28_aarch64", False),
        ("cp311-cp311-manylinux_2_28_x86_64", False),
        ("cp311-cp311-manylinux_2_5_aarch64", False),
        ("cp311-cp311-musllinux_1_2_aarch64", False),
        ("cp311-cp311-macosx_11_0_arm64", False),
        ("cp311-cp311-win_arm64", False),
    ],
)
def test_a_wheel_fits_by_its_tags(tags: str, fits: bool) -> None:
    assert IndexFile(f"demo-1.0-{tags}.whl", "1.0", True).fits("3.11", "aarch64") is fits


@pytest.mark.parametrize("platform", ["manylinux1", "manylinux2010", "manylinux2014", "manylinux_2_5"])
def test_old_names_of_platforms(platform: str) -> None:
    assert IndexFile(f"demo-1.0-cp310-cp310-{platform}_x86_64.whl", "1.0", True).fits("3.10", "x86_64")


def test_an_unknown_name_is_an_empty_page(server: Server) -> None:
    server.answer = lambda handler, _: reply(handler, 404)
    assert index(server).files("demo") == []


def test_transient_errors_are_retried(server: Server) -> None:
    server.answer = lambda handler, count: (
        reply(handler, [503, 429, 502][count - 1]) if count < 4 else reply(handler, 200, HTML)
    )
    assert index(server).versions("demo")
    assert server.requests == 4


def test_a_cut_connection_is_retried(server: Server) -> None:
    server.answer = lambda handler, count: cut(handler) if count == 1 else reply(handler, 200, HTML)
    assert index(server).versions("demo")


def test_redirects_are_followed(server: Server) -> None:
    server.answer = lambda handler, count: (
        reply(handler, 302, Location="/simple/other/") if count == 1 else reply(handler, 200, HTML)
    )
    assert index(server).versions("demo")


@pytest.mark.parametrize(
    ("status", "text"),
    [(500, "cannot be read: status 500"), (418, "status 418"), (401, "refuses access"), (403, "refuses access")],
)
def test_a_lasting_status_is_an_error(server: Server, status: int, text: str) -> None:
    server.answer = lambda handler, _: reply(handler, status)
    with pytest.raises(NetworkError, match=text) as caught:
        index(server).files("demo")
    assert caught.value.exit_code == 7
    assert caught.value.hint


def test_a_refused_connection_is_an_error() -> None:
    with pytest.raises(NetworkError, match=r"^127\.0\.0\.1:9 does not answer: Connection refused$"):
        Index("http://127.0.0.1:9/simple/", back_off=0.001).files("demo")


def test_credentials_come_from_netrc(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password x\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    server.answer = lambda handler, _: reply(
        handler, 200 if handler.headers["Authorization"] == "Basic bWU6eA==" else 401, HTML
    )
    assert index(server).versions("demo")


def test_credentials_are_not_shown() -> None:
    with pytest.raises(NetworkError) as caught:
        Index("http://user:secret@127.0.0.1:9/simple/", back_off=0.001).files("demo")
    assert "secret" not in caught.value.message


def test_the_address_is_shown_without_credentials() -> None:
    assert Index("https://token@host:1/feed@view/simple").shown == "https://host:1/feed@view/simple/"
    assert Index("https://user:p%40ss@host/simple/").shown == "https://host/simple/"


def test_credentials_of_the_index_are_not_shown_with_a_file(server: Server) -> None:
    server.answer = lambda handler, count: reply(handler, 200, HTML) if count == 1 else reply(handler, 404)
    private = Index(server.url.replace("//", "//user:secret@"), back_off=0.001)
    file = private.files("demo")[0]
    assert "secret" in file.url
    with pytest.raises(NetworkError, match="cannot be read: status 404") as caught:
        private.read(file)
    assert "secret" not in caught.value.message


def test_pages_are_kept_for_a_while(server: Server, tmp_path: Path) -> None:
    index(server, cache=tmp_path).files("demo")
    assert index(server, cache=tmp_path).versions("demo")
    assert server.requests == 1


def test_a_page_of_a_clock_that_was_ahead_is_downloaded_again(server: Server, tmp_path: Path) -> None:
    index(server, cache=tmp_path).files("demo")
    (stored,) = tmp_path.iterdir()
    os.utime(stored, (2**32, 2**32))
    assert index(server, cache=tmp_path).versions("demo")
    assert server.requests == 2


@pytest.mark.parametrize("place", ["file/folder", "/proc/none"])
def test_a_cache_that_cannot_be_used_is_ignored(server: Server, tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("")
    assert index(server, cache=tmp_path / place).versions("demo")


def test_a_cached_page_that_cannot_be_read_is_downloaded_again(server: Server, tmp_path: Path) -> None:
    index(server, cache=tmp_path).files("demo")
    (page,) = tmp_path.iterdir()
    page.unlink()
    # a folder in its place cannot be read by root either
    page.mkdir()
    assert index(server, cache=tmp_path).versions("demo")


def test_a_given_bundle_wins_over_variables(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server.secure(tmp_path / "trusted")
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "another"))
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "another"))
    assert Index(server.url, ca_bundle=tmp_path / "trusted").versions("demo")
    with pytest.raises(NetworkError, match=f"the TLS certificate of {server.host} is not trusted"):
        Index(server.url).files("demo")


def test_the_index_of_pip_and_uv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert default_index({"PIP_INDEX_URL": "http://a/", "HOME": str(tmp_path)}) == "http://a/"
    assert (
        default_index({"UV_DEFAULT_INDEX": "http://b/", "PIP_INDEX_URL": "http://a/", "HOME": str(tmp_path)})
        == "http://b/"
    )
    (tmp_path / "pip.conf").write_text("[global]\nindex-url = http://c/%20x\n")
    assert default_index({"PIP_CONFIG_FILE": str(tmp_path / "pip.conf"), "HOME": str(tmp_path)}) == "http://c/%20x"
    with monkeypatch.context() as patch:
        # uv is not needed for it
        patch.setattr("uv.find_uv_bin", lambda: "/proc/none")
        assert default_index({"ENVBUILDER_INDEX_URL": "http://d/", "PIP_INDEX_URL": "http://a/"}) == "http://d/"
    assert default_index({"HOME": str(tmp_path)}).startswith("https://")


@pytest.mark.parametrize(
    ("uv", "index"),
    [
        ("echo '--index-url https://index.example/simple'", "https://index.example/simple"),
        ("true", None),
        ("exit 2", None),
        (None, None),
    ],
)  # fmt: skip
def test_the_default_is_that_of_uv(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uv: str | None, index: str | None
) -> None:
    program = tmp_path / "uv"
    if uv:
        program.write_text(f"#!/bin/sh\n{uv}\n")
        program.chmod(0o755)
    monkeypatch.setattr("envbuilder.lock.index.uv_program", lambda: str(program))
    if index:
        assert default_index({"HOME": str(tmp_path)}) == index
        return
    with pytest.raises(UsageError, match="no package index is configured") as caught:
        default_index({"HOME": str(tmp_path)})
    assert caught.value.hint == "give --index-url"


def test_the_size_of_a_file_is_stated_by_the_index_or_by_its_server(server: Server) -> None:
    found = index(server)
    server.answer = lambda handler, _: reply(handler, 200, "x" * 1234)
    assert found.size(IndexFile("a.whl", "1", True, url=server.url)) == 1234
    assert found.size(IndexFile("a.whl", "1", True, url=server.url, size=7)) == 7
    server.answer = lambda handler, _: reply(handler, 404)
    assert found.size(IndexFile("a.whl", "1", True, url=server.url)) is None


def test_a_wheel_may_be_larger_than_a_page(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("envbuilder.http._MOST", 100_000)
    server.answer = lambda handler, _: reply(handler, 200, "x" * 200_000)
    assert len(index(server).read(IndexFile("a.whl", "1", True, url=server.url))) == 200_000
    with pytest.raises(NetworkError, match="the answer has more than"):
        index(server).files("a")


def test_the_days_of_versions_are_those_of_their_first_files() -> None:
    found = [
        {"filename": "x-1.0.tar.gz", "url": "/x", "upload-time": "2026-01-02T00:00:00Z"},
        {"filename": "x-1.0-py3-none-any.whl", "url": "/x", "upload-time": "2026-01-01T00:00:00Z"},
    ]
    older = {"releases": {"2.0": [{"upload_time": "2026-03-01T01:02:03"}], "3.0": []}}
    pages = {"/simple/x/": json.dumps({"files": found}), "/simple/y/": "<a href='y-2.0.tar.gz'>y</a>"}
    with files({**pages, "/pypi/y/json": json.dumps(older)}) as server:
        asked = Index(server.url)
        assert asked.days("x") == {"1.0": "2026-01-01"}
        assert asked.days("y") == {"2.0": "2026-03-01"}
        assert asked.days("z") == {}
