"""How the versions of a release are read from the files of its project."""

from collections.abc import Mapping
from typing import Annotated, Literal

from envbuilder.errors import Where
from envbuilder.matrix.model.scalars import INJECTED, Line, Name, Specifier, Url, Variable
from envbuilder.matrix.model.settings import When
from envbuilder.matrix.record import NOTHING, Record


class Read(Record):
    """Files that state versions. In a list of these, the first has the most authority."""

    name: Name
    reader: Literal["requirements", "toml", "setup", "shell", "document", "releases", "variables"]
    # the first that exists is read, and if none exists, that is an error. {family} and {branch} are those of the row;
    # * is a part of a name, of which the newest version is taken
    files: tuple[Line, ...]
    # the component or the repository that has the files, if not the framework or the engine
    of: Name | None = None
    repository: Url | None = None
    when: When | None = None
    # the releases that have the files; all where it is left out
    versions: Specifier | None = None
    # whether a release may lack the files
    optional: bool = False
    # whether the file of today is read, in place of that of the release
    latest: bool = False
    # whether it is the metadata of a package, which binds; everything else is a statement
    enforced: bool = False
    # a workflow with the build arguments of a Dockerfile
    build_args: Line | None = None
    # extras of a project file that belong to the installation
    extras: tuple[Line, ...] = ()
    # variables, or build arguments, that are the version of a component
    variables: Mapping[Variable, Name] = NOTHING
    # the components to read; all where it is left out
    only: tuple[Name, ...] = ()
    # names of components in these files, besides the usual ones
    called: Mapping[Line, Name] = NOTHING
    # a pattern of headings of a document whose sections are not read
    skip: Line | None = None
    # whether sentences of the document are read, too
    prose: bool = False
    where: Annotated[Where, INJECTED]


class StatedVersion(Record):
    """A file of a repository that states the version of each commit, for one that is not installed by its tags."""

    file: Line
    # its groups, joined by dots, are the version
    pattern: Line
    # whether the date of the commit is a part of the version, as the stated one does not change with the branch
    dated: bool = False


class OwnImage(Record):
    """The Dockerfile of a component, whose base image shows the release of the vendor's toolkit that it is for."""

    file: Line
    # the name of its release branches, which can be for another toolkit than the tag
    branch: Line | None = None
