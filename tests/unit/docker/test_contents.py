"""Two images, compared by their layers and files."""

from __future__ import annotations

import io
import json
import tarfile
from typing import IO, Any

from envbuilder.docker.contents import CONTENT, COVERED, FIRST, SECOND, TIME, ImageDifferences, compare_images
from envbuilder.files import digest_of


def layer(*items: tuple[str, bytes | None, dict[str, Any]]) -> bytes:
    """Return a layer of files with their contents; None is a folder."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name, content, details in items:
            entry = tarfile.TarInfo(name)
            entry.type = tarfile.DIRTYPE if content is None else tarfile.REGTYPE
            entry.size = len(content or b"")
            for key, value in details.items():
                setattr(entry, key, value)
            tar.addfile(entry, io.BytesIO(content or b""))
    return made.getvalue()


def file(name: str, content: str = "x", **details: Any) -> tuple[str, bytes, dict[str, Any]]:
    return name, content.encode(), details


def link(name: str, target: str, kind: bytes) -> tuple[str, bytes, dict[str, Any]]:
    return name, b"", {"type": kind, "linkname": target}


class Engine:
    """An engine that saves images as docker does."""

    def __init__(self, **images: list[bytes]) -> None:
        self._images = images

    def save(self, name: str) -> IO[bytes]:
        layers = {f"{number}/layer.tar": content for number, content in enumerate(self._images[name])}
        config = {"rootfs": {"diff_ids": [digest_of(content) for content in layers.values()]}}
        manifest = [{"Config": "config.json", "Layers": list(layers)}]
        made = io.BytesIO(
            layer(
                ("config.json", json.dumps(config).encode(), {}),
                ("manifest.json", json.dumps(manifest).encode(), {}),
                *((path, content, {}) for path, content in layers.items()),
            )
        )
        made.seek(0)
        return made


def compared(one: list[bytes], two: list[bytes]) -> ImageDifferences:
    return compare_images(Engine(one=one, two=two), "one", "two")  # type: ignore[arg-type]


def paths(found: ImageDifferences, how: str) -> list[str]:
    return [item.path for item in found.of(how)]


def test_equal_images_have_no_difference() -> None:
    image = [layer(file("a")), layer(("etc", None, {}), file("etc/b", "long"))]
    found = compared(image, image)
    assert found == ImageDifferences((2, 2), 2, (3, 3), ())


def test_every_kind_of_difference_is_named() -> None:
    base = layer(file("same"), file("gone"))
    one = layer(file("content", "old"), file("time", mtime=1), file("mode", mode=0o644), file("owner", uid=0))
    two = layer(
        file("content", "new"), file("time", mtime=2), file("mode", mode=0o755), file("owner", uid=7), file("new")
    )
    found = compared([base, one], [layer(file("same")), two])
    assert found.equal_layers == 0 and found.layers == (2, 2)
    assert paths(found, CONTENT) == ["content", "mode", "owner"]
    assert (paths(found, TIME), paths(found, FIRST), paths(found, SECOND)) == (["time"], ["gone"], ["new"])


def test_what_a_higher_layer_removes_or_replaces_is_not_compared() -> None:
    base = layer(file("a/x"), file("a/y"), file("b/z"), file("c", "old"))
    removed = layer(file("a/.wh.x"), file("b/.wh..wh..opq"), file("c", "new"))
    found = compared([base, removed], [layer(file("a/y"), file("c", "new"))])
    assert found.differences == () and found.files == (2, 2) and found.equal_layers == 0


def test_a_difference_that_a_later_layer_covers_is_named() -> None:
    top = layer(("tmp", None, {"mtime": 1}), file("a/.wh.x"), file("b", "new"))
    one = [layer(("tmp", None, {"mtime": 1}), file("a/x"), file("b", "old"), file("c")), top]
    two = [layer(("tmp", None, {"mtime": 2}), file("b", "older"), file("c")), top]
    found = compared(one, two)
    assert found.equal_layers == 1 and paths(found, COVERED) == ["b", "a/x", "tmp"] and len(found.differences) == 3


def test_links_are_compared_by_what_they_point_to() -> None:
    def image(content: str, target: str) -> list[bytes]:
        hard = link("hard", "file", tarfile.LNKTYPE)
        return [layer(file("file", content), hard, link("soft", target, tarfile.SYMTYPE))]

    assert compared(image("x", "file"), image("x", "file")).differences == ()
    found = compared(image("x", "file"), image("y", "other"))
    assert paths(found, CONTENT) == ["file", "hard", "soft"]


def test_the_largest_difference_comes_first() -> None:
    found = compared([layer(file("small", "a"), file("large", "a" * 99))], [layer(file("small", "b"))])
    assert [item.path for item in found.differences] == ["large", "small"]
