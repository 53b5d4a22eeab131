"""The account of the files of an image, on folders in place of an image and its base image."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import os
import py_compile
import site
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from envbuilder.matrix import load
from envbuilder.plan import Plan, make_plan
from envbuilder.plan.own_files import own_files, own_texts
from envbuilder.validate import target
from tests.conftest import A3_SGLANG, environment

INSIDE = Path(target.__file__).parent / "smoke" / "inside"
SITE = site.getsitepackages()[0]
SOURCES = "/opt/envbuilder/src"
CERTIFICATE = "-----BEGIN CERTIFICATE-----\nQUJD\n-----END CERTIFICATE-----\n"
STATUS = """Package: {name}
Status: install ok installed
Architecture: amd64
Version: {version}
Depends: {needs}
Conffiles:
 /etc/{name}.conf {settings}
"""


@pytest.fixture(scope="module")
def account() -> Iterator[Any]:
    """The script, with the modules beside it; in a container it finds them by itself."""
    spec = importlib.util.spec_from_file_location("account", INSIDE / "account.py")
    assert spec is not None and spec.loader is not None
    module, before = importlib.util.module_from_spec(spec), [*sys.path]
    spec.loader.exec_module(module)
    yield module
    sys.path[:] = before


def write(root: Path, path: str, text: str = "") -> Path:
    file = root / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def package(name: str, version: str = "1", needs: str = "") -> str:
    return STATUS.format(name=name, version=version, needs=needs, settings=md5(f"settings of {name}"))


def install(root: Path, name: str) -> None:
    """Install a package of the system, as dpkg does."""
    info = "/var/lib/dpkg/info"
    write(root, f"/usr/bin/{name}", f"program {name}")
    write(root, f"/etc/{name}.conf", f"settings of {name}")
    write(root, f"{info}/{name}.md5sums", f"{md5(f'program {name}')}  usr/bin/{name}\n")
    (root / "etc/alternatives").mkdir(parents=True, exist_ok=True)
    (root / f"etc/alternatives/{name}").symlink_to(f"/usr/bin/{name}")
    (root / f"usr/bin/{name}-link").symlink_to(name)
    write(root, f"{info}/{name}.list", f"/.\n/usr/bin/{name}\n/usr/bin/{name}-link\n")


def record(root: Path, name: str, files: dict[str, str]) -> None:
    """Install a Python package, as pip does."""
    lines = []
    for path, text in {**files, f"{name}-1.dist-info/METADATA": f"Name: {name}\nVersion: 1\n"}.items():
        write(root, f"{SITE}/{path}", text)
        code = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={code},{len(text)}")
    write(root, f"{SITE}/{name}-1.dist-info/RECORD", "\n".join([*lines, f"{name}-1.dist-info/RECORD,,"]))


def compiled(root: Path, path: str, source: str) -> None:
    """Write the byte code of a text in the place of that of a source."""
    text = write(root, "/elsewhere.py", source)
    place = Path(path)
    file = root / f"{place.parent}/__pycache__/{place.stem}.{sys.implementation.cache_tag}.pyc".lstrip("/")
    py_compile.compile(str(text), cfile=str(file))
    text.unlink()


class Image:
    """An image with one file of every kind, and its base image."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        self.base, self.root = folder / "base", folder / "image"
        for root in (self.base, self.root):
            install(root, "dash")
            write(root, "/var/lib/dpkg/status", package("dash"))
            write(root, "/etc/passwd", "root:x:0:0:root:/root:/bin/bash\n")
            write(root, "/etc/ld.so.conf", "include /etc/ld.so.conf.d/*.conf\n")
            write(root, "/root/.bashrc", "umask 022\n")
            write(root, "/usr/lib/os.py", "import sys\n")
        install(self.root, "curl")
        install(self.root, "libcurl")
        status = [package("dash"), package("curl", needs="libc6 (>= 2), libcurl | other"), package("libcurl")]
        write(self.root, "/var/lib/dpkg/status", "\n".join(status))
        write(self.root, "/var/lib/dpkg/info/curl.postinst").chmod(0o755)
        write(
            self.root,
            "/etc/passwd",
            "root:x:0:0:root:/root:/bin/bash\n_curl:x:101:101::/nonexistent:/usr/sbin/nologin\n",
        )
        write(self.root, "/root/.bashrc", "umask 022\nsource /opt/envbuilder/setup.sh\n")
        record(self.root, "toy", {"toy/__init__.py": "one = 1\n", "toy.pth": "/opt\n"})
        compiled(self.root, f"{SITE}/toy/__init__.py", "one = 1\n")
        self.tree = {"verl/a.py": hashlib.sha256(b"a").hexdigest()}
        write(self.root, f"{SOURCES}/verl/verl/a.py", "a")
        write(self.root, f"{SOURCES}/verl/verl.egg-info/PKG-INFO", "Name: verl\n")
        write(self.root, f"{SOURCES}/verl/.git/config", "[core]\n\tbare = false\n")
        write(self.root, f"{SOURCES}/verl/.git/hooks/pre-commit.sample", "#!/bin/sh\n").chmod(0o755)
        self.own = [item._asdict() for item in own_files(plan)]
        self.texts = own_texts(plan)
        for path in self.texts:
            write(self.root, path, plan.files[path.removeprefix("/opt/envbuilder/")])
        write(self.root, "/opt/envbuilder/base.txt", "uv==0.1\n")
        (self.root / "etc/alternatives/c++").symlink_to("/usr/bin/curl")
        (self.root / "usr/bin/c++").symlink_to("/etc/alternatives/c++")
        write(self.root, "/var/lib/dpkg/info/dash.list", "/usr/bin/dash\n")

    def document(self, account: Any) -> dict[str, Any]:
        job = {
            "home": "/opt/envbuilder", "sources": SOURCES, "kept": ["verl"], "trees": ["verl"], "unknown": [],
            "hashes": {"verl": self.tree}, "products": [], "packages": ["toy"], "tools": ["uv"],
            "system_packages": ["curl"], "texts": self.texts, "own": self.own,
        }  # fmt: skip
        found: dict[str, Any] = account.ImageFiles(str(self.root), str(self.base), job).document()
        return found


@pytest.fixture(scope="module")
def plan() -> Plan:
    return make_plan(environment(load(everything=True), A3_SGLANG))


@pytest.fixture
def image(tmp_path: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> Image:
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(Path(SITE).parents[2]))
    return Image(tmp_path, plan)


def test_every_file_of_an_unchanged_image_is_accounted_for(image: Image, account: Any) -> None:
    found = image.document(account)
    assert found["unaccounted"] == {} and found["lost"] == 0
    assert sum(found["kinds"].values()) == found["files"]
    assert found["kinds"].keys() == {
        "Python package", "base image", "byte code", "plan", "source tree", "system package",
    }  # fmt: skip
    assert found["trees"] == {"verl": image.tree}
    assert found["runs"]["pth"] == {f"{SITE}/toy.pth": "Python package: toy"}
    assert found["runs"]["accounts"] == {"root: 0, /bin/bash": "plan"}


def linked(path: str, to: str) -> Callable[[Image], None]:
    def sabotage(image: Image) -> None:
        file = image.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)
        file.symlink_to(to)

    return sabotage


def changed(path: str, text: str) -> Callable[[Image], None]:
    return lambda image: void(write(image.root, path, text))


def added(path: str, text: str) -> Callable[[Image], None]:
    return lambda image: void(write(image.root, path, (image.root / path.lstrip("/")).read_text() + text))


def void(_: object) -> None:
    return None


def another_package(image: Image) -> None:
    install(image.root, "netcat")
    added("/var/lib/dpkg/status", f"\n{package('netcat')}")(image)


def claimed(image: Image) -> None:
    """A package of the plan lists a file outside of Python's folders."""
    up = "../" * (len(Path(SITE).parts) - 1)
    record(
        image.root,
        "toy",
        {"toy/__init__.py": "one = 1\n", "toy.pth": "/opt\n", f"{up}etc/cron.d/x": "* * * * * root id\n"},
    )


SABOTAGES: dict[str, tuple[str, Callable[[Image], None]]] = {
    "pth": (f"{SITE}/zz.pth", changed(f"{SITE}/zz.pth", "import os")),
    "sitecustomize": (f"{SITE}/sitecustomize.py", changed(f"{SITE}/sitecustomize.py", "")),
    "usercustomize": (f"{SITE}/usercustomize.py", changed(f"{SITE}/usercustomize.py", "")),
    "module": (f"{SITE}/extra/__init__.py", changed(f"{SITE}/extra/__init__.py", "")),
    "cron": ("/etc/cron.d/x", changed("/etc/cron.d/x", "* * * * * root id\n")),
    "root account": ("/etc/passwd", added("/etc/passwd", "toor::0:0::/root:/bin/bash\n")),
    "account with a shell": ("/etc/passwd", added("/etc/passwd", "me:x:102:102::/:/bin/bash\n")),
    "key": ("/root/.ssh/id", changed("/root/.ssh/id", "-----BEGIN OPENSSH PRIVATE KEY-----\n")),
    "profile": ("/etc/profile.d/x.sh", changed("/etc/profile.d/x.sh", "id\n")),
    "linker": ("/etc/ld.so.conf", added("/etc/ld.so.conf", "/evil\n")),
    "folder of the linker": ("/etc/ld.so.conf.d/x.conf", changed("/etc/ld.so.conf.d/x.conf", "/evil\n")),
    "preloaded": ("/etc/ld.so.preload", changed("/etc/ld.so.preload", "/evil.so\n")),
    "bashrc": ("/root/.bashrc", added("/root/.bashrc", "id\n")),
    "system package": ("/usr/bin/curl", added("/usr/bin/curl", "x")),
    "settings": ("/etc/curl.conf", added("/etc/curl.conf", "x")),
    "base": ("/usr/lib/os.py", added("/usr/lib/os.py", "import evil")),
    "setuid": ("/usr/bin/dash", lambda image: (image.root / "usr/bin/dash").chmod(0o4755)),
    "program": ("/usr/local/bin/tool", changed("/usr/local/bin/tool", "#!/bin/sh\n")),
    "link": ("/usr/local/bin/tool", linked("/usr/local/bin/tool", "/usr/bin/dash")),
    "link to nothing known": ("/usr/bin/curl-link", lambda image: void([linked("/usr/bin/curl-link", "/x")(image), write(image.root, "/x")])),
    "Python package": (f"{SITE}/toy/__init__.py", changed(f"{SITE}/toy/__init__.py", "one = 2\n")),
    "byte code": ("toy/__pycache__/__init__", lambda image: compiled(image.root, f"{SITE}/toy/__init__.py", "import evil\n")),
    "byte code without source": ("toy/__pycache__/x", lambda image: compiled(image.root, f"{SITE}/toy/x.py", "")),
    "source": (f"{SOURCES}/verl/verl/a.py", changed(f"{SOURCES}/verl/verl/a.py", "b")),
    "added source": (f"{SOURCES}/verl/verl/b.py", changed(f"{SOURCES}/verl/verl/b.py", "")),
    "link out of a source tree": (f"{SOURCES}/verl/b", linked(f"{SOURCES}/verl/b", "/usr/bin/dash")),
    "plug-in": (
        f"{SOURCES}/verl/verl.egg-info/entry_points.txt",
        changed(f"{SOURCES}/verl/verl.egg-info/entry_points.txt", "[plugins]\nx = y\n"),
    ),
    "hook": (f"{SOURCES}/verl/.git/hooks/pre-commit", changed(f"{SOURCES}/verl/.git/hooks/pre-commit", "")),
    "git": (f"{SOURCES}/verl/.git/config", added(f"{SOURCES}/verl/.git/config", "\tfsmonitor = evil\n")),
    "lock": ("/opt/envbuilder/locks/pins.txt", added("/opt/envbuilder/locks/pins.txt", "evil==1\n")),
    "setup": ("/opt/envbuilder/setup.sh", added("/opt/envbuilder/setup.sh", "id\n")),
    "list of the base": ("/opt/envbuilder/base.txt", added("/opt/envbuilder/base.txt", "evil==1\n")),
    "certificate": ("/etc/ssl/certs/ca-certificates.crt", changed("/etc/ssl/certs/ca-certificates.crt", CERTIFICATE)),
    "log that is a program": ("/var/log/apt/x", lambda image: write(image.root, "/var/log/apt/x").chmod(0o755)),
    "another package": ("/usr/bin/netcat", another_package),
    "RECORD": ("/etc/cron.d/x", claimed),
    "alternative": ("/usr/bin/c++", lambda image: void([linked("/etc/alternatives/c++", "/x")(image), write(image.root, "/x")])),
    "list": ("/var/lib/dpkg/info/dash.list", added("/var/lib/dpkg/info/dash.list", "/x\n")),
    "pipe": ("/pipe", lambda image: os.mkfifo(image.root / "pipe")),
}  # fmt: skip


@pytest.mark.parametrize("name", SABOTAGES)
def test_a_file_that_belongs_to_nothing_is_named(image: Image, account: Any, name: str) -> None:
    path, sabotage = SABOTAGES[name]
    sabotage(image)
    found = image.document(account)
    assert any(path in lost for lost in found["unaccounted"]), found["unaccounted"]
    assert found["lost"] == len(found["unaccounted"]) < 7, "and nothing that is right"


def test_a_package_of_the_base_image_cannot_claim_more(image: Image, account: Any) -> None:
    """Its checksums are read where no layer above can change them."""
    write(image.root, "/etc/cron.d/x", "x")
    added("/var/lib/dpkg/info/dash.md5sums", f"{md5('x')}  etc/cron.d/x\n")(image)
    assert image.document(account)["unaccounted"].keys() == {"/etc/cron.d/x", "/var/lib/dpkg/info/dash.md5sums"}


def test_files_of_rpm_packages_are_compared_with_their_digests(
    image: Image, account: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In place of rpm a program prints what rpm would print of the database that it is given."""
    right, wrong = hashlib.sha256(b"right").hexdigest(), hashlib.sha256(b"wrong").hexdigest()
    lines = [
        f"tool\t{right}\t/usr/bin/right",
        f"tool\t{wrong}\t/usr/bin/wrong",
        "tool\t\t/usr/bin/link",
        "tool\t\t/usr/bin",
    ]
    write(image.root, "/var/lib/rpm/rpmdb.sqlite", "\n".join(lines))
    program = write(tmp_path, "/programs/rpm", '#!/bin/sh\n[ "$1" = --dbpath ] && cat "$2/rpmdb.sqlite"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    write(image.root, "/usr/bin/right", "right")
    write(image.root, "/usr/bin/wrong", "other")
    (image.root / "usr/bin/link").symlink_to("right")
    assert image.document(account)["unaccounted"] == {
        "/usr/bin/wrong": "is changed: system package tool has another one"
    }


def test_certificates_of_packages_may_be_gathered_in_one_file(image: Image, account: Any) -> None:
    write(image.base, "/usr/share/ca-certificates/a.crt", CERTIFICATE)
    write(image.root, "/usr/share/ca-certificates/a.crt", CERTIFICATE)
    write(image.root, "/etc/ssl/certs/ca-certificates.crt", f"\n{CERTIFICATE}")
    assert image.document(account)["unaccounted"] == {}


def test_a_missing_file_of_a_package_is_damage(image: Image, account: Any) -> None:
    (image.root / f"{SITE}/toy/__init__.py".lstrip("/")).unlink()
    assert image.document(account)["packages"]["toy"] == {"toy/__init__.py": "missing"}


def test_a_path_is_shown_without_what_a_terminal_obeys(image: Image, account: Any) -> None:
    write(image.root, "/etc/\x1b[31m\u202ex")
    assert [*image.document(account)["unaccounted"]] == ["/etc/\\x1b[31m\\u202ex"]
