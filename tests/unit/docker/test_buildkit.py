"""BuildKit's output is read into steps, and known failures in it have hints."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from envbuilder.docker.buildkit import Silent, StepResult, follow
from envbuilder.docker.failures import build_failure, hint_of

# two stages at once, a cached step, a failing one, and lines of no step, in the formats of buildx and of old engines
OUTPUT = """\
#1 [internal] load build definition from Dockerfile
#1 sha256:aa01
#1 DONE 0.0s

#4 [system 1/3] FROM docker.io/x/base:1
#4 CACHED

#5 [system 2/3] RUN apt-get update
#5 sha256:1111111111111111111111111111111111111111111111111111111111111111
#5 CACHED

#6 [environment 1/2] RUN uv pip install
#7 [wheels-a-built 1/1] RUN make
#6 0.301 Resolved 3 packages
#7 0.100 cc -c a.c
#6 DONE 2.5s
#7 1.200 a.c:1: error: what
#7 ERROR: executor failed running [make]: exit code: 2
------
 > [wheels-a-built 1/1] RUN make:
------
error: failed to solve
"""


class Events:
    def __init__(self) -> None:
        self.events: list[str] = []

    def started(self, step: StepResult) -> None:
        self.events.append(f"{step.stage} {step.number} started")

    def said(self, step: StepResult, line: str) -> None:
        self.events.append(f"{step.stage} {step.number} printed {line}")

    def ended(self, step: StepResult) -> None:
        how = "failed" if step.failed else "cached" if step.cached else "done"
        self.events.append(f"{step.stage} {step.number} {how}")


def test_the_output_of_stages_that_run_at_once_is_assigned_to_their_steps() -> None:
    listener, log = Events(), io.StringIO()
    steps, rest = follow(io.StringIO(OUTPUT), log, listener)
    assert listener.events == [
        "system 1 started", "system 1 cached", "system 2 started", "system 2 cached", "environment 1 started",
        "wheels-a-built 1 started", "environment 1 printed Resolved 3 packages", "wheels-a-built 1 printed cc -c a.c",
        "environment 1 done", "wheels-a-built 1 printed a.c:1: error: what", "wheels-a-built 1 failed",
    ]  # fmt: skip
    assert [step.output for step in steps if step.failed] == [["cc -c a.c", "a.c:1: error: what"]]
    assert "error: failed to solve" in rest
    assert log.getvalue() == OUTPUT


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("ssl.SSLError: [SSL: CERTIFICATE_VERIFY_FAILED]", "--ca-bundle"),
        ("curl: (407) 407 Proxy Authentication Required", "--proxy"),
        ("OSError: [Errno 28] No space left on device", "docker system prune"),
        ("Hash mismatch for `tqdm==4.67.1`", "not the one that was locked"),
        ("fatal: unable to access 'https://git.example/x.git/'", "--git-mirror"),
        ("exec /bin/bash: exec format error", "--platform"),
        ("E: Release file for http://x/InRelease is not valid yet (invalid for another 3d)", "check the clock"),
        ("E: Release file for http://x/InRelease is expired (invalid since 3d)", "check the clock"),
        ("certificate verify failed: certificate is not yet valid (_ssl.c:1007)", "check the clock"),
        ("invalid peer certificate: Expired", "check the clock"),
        ("invalid peer certificate: certificate expired: verification time 1 (UNIX)", "check the clock"),
        ("g++: fatal error: Killed signal terminated program cc1plus", "--jobs 1, or give the build more memory"),
        ("W: Failed to fetch http://x  Temporary failure resolving: Could not resolve 'x'", "--apt-mirror"),
    ],
)
def test_a_known_failure_has_a_hint(line: str, hint: str) -> None:
    assert hint in (hint_of(["something before", line]) or "")


@pytest.mark.parametrize(
    ("reason", "shown", "hint"),
    [
        ('process "/bin/sh -c make" did not complete successfully: exit code: 2', [], ""),
        ("executor failed running [make]: exit code: 137", ["exit code: 137"], "out of memory"),
        ("executor failed running [a [1]: b]: failed to create endpoint x", ["failed to create endpoint x"], "restart"),
    ],
)
def test_what_the_engine_says_about_a_failed_step_is_shown(reason: str, shown: list[str], hint: str) -> None:
    lines = io.StringIO(f"#6 [environment 1/2] RUN make\n#6 ERROR: {reason}\n")
    ((step,), _) = follow(lines, io.StringIO(), Silent())
    assert step.output == shown
    assert hint in (hint_of(step.output) or "")


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("Could not resolve 'x'", 7),
        ('Head "https://x/v2/": dial tcp: lookup x on 10.0.0.1:53: no such host', 7),
        ("No space left on device", 5),
        ("exec /bin/sh: exec format error", 5),
        ("Cannot connect to the Docker daemon at tcp://127.0.0.1:9. Is the docker daemon running?", 5),
        ("Cannot connect to Podman. Please verify your connection", 5),
        ("E: unable to pick chroot mode automatically (use --mode for manual selection)", 5),
        ("E: Some index files failed to download. They have been ignored, or old ones used instead.", 7),
        ("W: GPG error: the following signatures could not be verified: NO_PUBKEY 6ED0E7B82643E131", 5),
        ("Hash mismatch for `tqdm`", 1),
        ("a.c:1: error", 1),
    ],
)
def test_a_failure_of_the_machine_is_not_one_of_the_build(line: str, code: int) -> None:
    assert build_failure("", [line], Path("build.log")).exit_code == code


def test_an_unknown_failure_has_no_hint() -> None:
    assert hint_of(["a.c:1: error: expected ';'"]) is None
