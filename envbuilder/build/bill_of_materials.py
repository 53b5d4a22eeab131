"""Writes the bill of materials of an image (CycloneDX 1.6) from its lock and its sources."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from envbuilder import __version__, versions
from envbuilder.environment import Environment
from envbuilder.plan import SourceArchive


def bill_of_materials(environment: Environment, sources: Mapping[str, SourceArchive], base: str, base_id: str) -> str:
    """Return the bill of materials; the same inputs give the same bytes, without a time or a random number."""
    image = {
        "type": "container",
        "bom-ref": environment.id,
        "name": environment.id,
        "version": environment.pins[environment.framework.component].version,
    }
    parts = [
        {"type": "container", "bom-ref": "base", "name": base, "version": base_id},
        *_locked(environment),
        *_built(environment, sources),
    ]
    document: dict[str, Any] = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "tools": {"components": [{"type": "application", "name": "envbuilder", "version": __version__}]},
            "component": image,
        },
        "components": parts,
        "dependencies": [{"ref": environment.id, "dependsOn": [part["bom-ref"] for part in parts]}],
    }
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(document, sort_keys=True))
    return json.dumps({**document, "serialNumber": f"urn:uuid:{serial}"}, indent=2) + "\n"


def _locked(environment: Environment) -> Iterator[dict[str, Any]]:
    added = environment.additions.packages if environment.additions else ()
    names = {package.name for package in added}
    rows = [package for package in (environment.lock.packages if environment.lock else ()) if package.name not in names]
    for package in (*rows, *added):
        name, version, hashes = package.name, package.version, package.hashes
        purl = f"pkg:pypi/{name}@{version.replace('+', '%2B')}"
        yield {
            "type": "library",
            "bom-ref": purl,
            "name": name,
            "version": version,
            "purl": purl,
            # a lock allows every wheel of a version, so a single hash is that of the installed file
            **({"hashes": [{"alg": "SHA-256", "content": hashes[0]}]} if len(hashes) == 1 else {}),
        }


def _built(environment: Environment, sources: Mapping[str, SourceArchive]) -> Iterator[dict[str, Any]]:
    for source in sources.values():
        component = environment.component(source.component)
        assert component is not None  # noqa: S101  it was built
        name, version = (
            environment.distribution(component.name),
            versions.public(environment.pins[component.name].version),
        )
        where = {"type": "vcs", "url": component.repository}
        yield {
            "type": "library",
            "bom-ref": f"source:{component.name}",
            "name": name,
            "version": version,
            "purl": f"pkg:pypi/{name}@{version.replace('+', '%2B')}",
            "externalReferences": [where] if component.repository else [],
            "properties": [
                {"name": "envbuilder:source", "value": f"{source.kind}:{source.reference}"},
                *([{"name": "envbuilder:archive", "value": f"sha256:{source.sha256}"}] if source.sha256 else []),
            ],
        }
