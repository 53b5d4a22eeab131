"""envbuilder diagnose"""

from __future__ import annotations

from contextlib import nullcontext

import click

from envbuilder.cli import options
from envbuilder.cli.answer import markdown_answer, show_answer
from envbuilder.cli.arguments import MatrixFolder, Talk
from envbuilder.cli.json import diagnosis, document
from envbuilder.cli.text_argument import text_of
from envbuilder.errors import UsageError
from envbuilder.language import CHINESE, speaking, tr


@options.command("diagnose")
@click.argument("file", required=False)
@options.option("--live", is_flag=True, help="Collect a report of this machine and diagnose it.")
@options.option("--image", metavar="IMAGE", help="Diagnose the packages of an image in the engine.")
@options.option("--markdown", is_flag=True, help="Print a reply for an issue.")
@options.as_json
@options.matrices
@options.talk
def command(
    file: str | None, live: bool, image: str | None, markdown: bool, json_: bool, matrices: MatrixFolder, talk: Talk
) -> None:  # fmt: skip
    """Diagnose a report of a broken environment: what is wrong, what is suspicious, what is harmless, what helps.

    FILE may mix output of collect_env, pip list and npu-smi with tracebacks and prose; - is standard input. A report
    in Chinese is answered in Chinese.
    """
    from envbuilder.diagnose.facts import keys
    from envbuilder.diagnose.judge import diagnose
    from envbuilder.diagnose.report import PastedReport

    if markdown and json_:
        raise UsageError(tr("--markdown and --json are two forms: give one of them"))
    if sum((file is not None, live, image is not None)) != 1:
        raise UsageError(tr("exactly one report is needed"), hint=tr("give a FILE, or -, or --live, or --image IMAGE"))
    console, catalog = talk.console, matrices.catalog(everything=True)
    text = _report(file, live, image)
    with speaking(CHINESE) if PastedReport.of(text).is_chinese and not json_ else nullcontext():
        found = diagnose(catalog, text)
        if json_:
            facts = {**dict.fromkeys(keys(catalog)), **found.facts}
            closest = found.closest.id if found.closest else None
            findings = [diagnosis(item, found.report) for item in found.findings]
            console.data(document(facts=facts, closest=closest, findings=findings))
        elif markdown:
            console.out(markdown_answer(found))
        else:
            show_answer(console, found)


def _report(file: str | None, live: bool, image: str | None) -> str:
    if file is not None:
        return text_of(file)
    from envbuilder.diagnose.collect import of_image, of_machine

    if image is not None:
        from envbuilder.docker.engine import Docker

        return of_image(image, Docker())
    from envbuilder.machine.machine import look

    return of_machine(look())
