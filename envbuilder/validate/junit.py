"""Writes a report as JUnit XML, which every CI system shows."""

from __future__ import annotations

from xml.etree import ElementTree

from envbuilder.validate.report import LEVELS, Report


def junit(report: Report) -> str:
    suites = ElementTree.Element("testsuites", name=report.environment)
    for level in LEVELS:
        checks = [check for check in report.checks if check.level == level]
        if not checks:
            continue
        counts = report.count(level)
        suite = ElementTree.SubElement(
            suites, "testsuite", name=level, tests=str(len(checks)), errors="0", failures=str(counts["failed"]),
            skipped=str(counts["not-checked"]), hostname=report.machine, timestamp=report.started.rstrip("Z"),
            time=f"{report.times[level]:.3f}",
        )  # fmt: skip
        for check in checks:
            case = ElementTree.SubElement(suite, "testcase", name=check.name, time=f"{check.seconds:.3f}")
            case.set("classname", f"{report.environment}.{level}")
            if check.status == "failed":
                ElementTree.SubElement(case, "failure", message=check.message)
            elif check.status == "not-checked":
                ElementTree.SubElement(case, "skipped", message=f"not checked: {check.message}")
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"
