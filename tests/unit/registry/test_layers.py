"""Layers are written again in one form, whatever the engine wrote, and contain the same files."""

from __future__ import annotations

import subprocess
import tarfile
from io import BytesIO
from pathlib import Path

import pytest

from envbuilder.registry.layers import TIME, LayerWriter


def entry(name: str, text: str | None = None, **values: object) -> tuple[tarfile.TarInfo, bytes]:
    """Return a file with this text, or a folder."""
    made = tarfile.TarInfo(name)
    made.type, made.mtime = (tarfile.DIRTYPE, 1000) if text is None else (tarfile.REGTYPE, 2000)
    made.mode = 0o755 if text is None else 0o644
    made.size = len((text or "").encode())
    for key, value in values.items():
        setattr(made, key, value)
    return made, (text or "").encode()


def link(name: str, to: str, kind: bytes = tarfile.LNKTYPE) -> tuple[tarfile.TarInfo, bytes]:
    return entry(name, "", type=kind, linkname=to)


def layer(*entries: tuple[tarfile.TarInfo, bytes]) -> BytesIO:
    file = BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for made, text in entries:
            tar.addfile(made, BytesIO(text) if made.isreg() else None)
    file.seek(0)
    return file


def written(*layers: BytesIO) -> list[bytes]:
    writer, found = LayerWriter(), []
    for item in layers:
        target = BytesIO()
        item.seek(0)
        writer.write(item, target)
        found.append(target.getvalue())
    return found


def names(content: bytes) -> list[str]:
    with tarfile.open(fileobj=BytesIO(content)) as tar:
        return tar.getnames()


def test_order_times_and_owners_by_name_do_not_matter() -> None:
    one = layer(entry("b", "B"), entry("a"), entry("a/x", "X", uname="root"))
    two = layer(entry("./a", mtime=5), entry("./a/x", "X", mtime=7, gname="wheel"), entry("./b", "B"))
    assert written(one) == written(two)
    with tarfile.open(fileobj=BytesIO(written(one)[0])) as tar:
        assert [(item.name, item.mtime, item.uname) for item in tar] == [
            ("a", TIME, ""),
            ("a/x", TIME, ""),
            ("b", TIME, ""),
        ]


@pytest.mark.parametrize(
    "other", [entry("a", "B"), entry("a", "A", mode=0o755), entry("a", "A", uid=1), entry("c", "A")]
)
def test_content_mode_owner_and_name_matter(other: tuple[tarfile.TarInfo, bytes]) -> None:
    assert written(layer(entry("a", "A"))) != written(layer(other))


def test_folders_equal_to_those_of_a_lower_layer_are_left_out() -> None:
    """docker 20.10 has two ways to write a layer; only one lists the folders of each file."""
    below = layer(entry("usr"), entry("usr/lib"))
    with_them = layer(entry("usr", mtime=9), entry("usr/lib", mtime=9), entry("usr/lib/x", "X"))
    without = layer(entry("usr/lib/x", "X"))
    below_again = layer(entry("usr"), entry("usr/lib"))
    assert written(below, with_them) == written(below_again, without)
    changed = written(layer(entry("usr")), layer(entry("usr", mode=0o700)))
    assert names(changed[1]) == ["usr"]


def test_an_emptied_folder_equals_one_whose_files_are_removed() -> None:
    """One way to write a layer marks a folder as emptied, the other marks each removed file."""

    def below() -> BytesIO:
        return layer(entry("p"), entry("p/a", "A"), entry("p/b", "B"), entry("p/sub"), entry("p/sub/c", "C"))

    emptied = layer(entry("p"), entry("p/.wh..wh..opq", ""), entry("p/a", "new"))
    removed = layer(entry("p/.wh.b", ""), entry("p/.wh.sub", ""), entry("p/a", "new"))
    assert written(below(), emptied) == written(below(), removed)
    assert names(written(below(), layer(entry("p/.wh.b", ""), entry("p/.wh.sub", ""), entry("p/a", "new")))[1]) == [
        "p/.wh.b", "p/.wh.sub", "p/a",
    ]  # fmt: skip


def test_a_file_in_place_of_a_folder_and_back() -> None:
    found = written(
        layer(entry("p"), entry("p/a", "A")), layer(entry("p", "file")), layer(entry("p"), entry("p/b", "B"))
    )
    assert [names(item) for item in found] == [["p", "p/a"], ["p"], ["p", "p/b"]]


def test_byte_code_and_logs_are_left_out() -> None:
    traces = [
        entry("lib/__pycache__"), entry("lib/__pycache__/x.cpython-311.pyc", "1"), entry("var/log/apt/history.log", "today"),
        entry("var/cache/ldconfig/aux-cache", "1"), entry("var/cache/debconf/config.dat-old", "1"),
        entry("tmp/uv-2a61f0e57d5b1c39.lock", ""),
    ]  # fmt: skip
    kept = [entry("lib"), entry("lib/x.py", "x"), entry("lib/old.pyc", "no source"), entry("var"), entry("var/log")]
    assert written(layer(*kept, *traces)) == written(layer(*kept))
    # a mark for the removal of a file that was left out is left out too
    assert names(written(layer(*kept, *traces), layer(entry("var/log/.wh.apt", "")))[1]) == []


def test_several_names_of_one_file() -> None:
    """Engines store the content under the name that they read first."""
    one = layer(entry("a", "same"), link("b", "a"), link("c", "a"))
    two = layer(entry("c", "same"), link("a", "c"), link("b", "c"))
    assert written(one) == written(two)
    with tarfile.open(fileobj=BytesIO(written(one)[0])) as tar:
        assert [(item.name, item.islnk(), item.linkname) for item in tar] == [
            ("a", False, ""), ("b", True, "a"), ("c", True, "a"),
        ]  # fmt: skip


def test_attributes_and_devices_stay(tmp_path: Path) -> None:
    capability = {"SCHILY.xattr.security.capability": "\udc80\x01", "mtime": "12.5", "comment": "x"}
    device = entry("null", "", type=tarfile.CHRTYPE, devmajor=1, devminor=3, mode=0o666)
    (made,) = written(layer(entry("ping", "x", pax_headers=capability), device, link("s", "ping", tarfile.SYMTYPE)))
    with tarfile.open(fileobj=BytesIO(made)) as tar:
        found = {item.name: item for item in tar}
    assert found["ping"].pax_headers == {key: value for key, value in capability.items() if "capability" in key} | (
        {"hdrcharset": "BINARY"} if "hdrcharset" in found["ping"].pax_headers else {}
    )
    assert (found["null"].ischr(), found["null"].devmajor, found["null"].devminor) == (True, 1, 3)
    assert (found["s"].issym(), found["s"].linkname) == (True, "ping")


def test_another_program_unpacks_the_same_files(tmp_path: Path) -> None:
    """Another program unpacks one layer over the other, without the marks for removed files."""
    long = "d/" + "n" * 120
    for number, content in enumerate(
        written(layer(entry("d"), entry(long, "long"), entry("d/ä", "ü"), link("d/z", long)))
    ):
        file = tmp_path / f"{number}.tar"
        file.write_bytes(content)
        subprocess.run(["tar", "--extract", "--file", file, "--directory", tmp_path], check=True)
    assert (tmp_path / long).read_text() == (tmp_path / "d/z").read_text() == "long"
    assert (tmp_path / "d/ä").read_text() == "ü"
    assert (tmp_path / long).stat().st_ino == (tmp_path / "d/z").stat().st_ino
