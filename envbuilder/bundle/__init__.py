"""Bundles: everything that a site without a network needs for an environment, in one file.

A bundle is a tar file. `bundle.json` contains the environment, its sources and the digest of every other file: the
wheels of the lock, sources at their commits, the Dockerfile, the script and, for building images, the base image and
the packages of its distribution. envbuilder compares the digests before it uses a file, wheels with the lock, and
sources with their commits; `bundle.json.sig` is a signature of `bundle.json`.
"""

from envbuilder.bundle.read import Bundle, Needed, as_bundled, bundle_of, environment_in, open_bundle
from envbuilder.bundle.system import BuildBase, gather
from envbuilder.bundle.write import ProvenSource, check_output, require_lock, write_bundle

__all__ = [
    "BuildBase",
    "Bundle",
    "Needed",
    "ProvenSource",
    "as_bundled",
    "bundle_of",
    "check_output",
    "environment_in",
    "gather",
    "open_bundle",
    "require_lock",
    "write_bundle",
]  # fmt: skip
