"""The model of the matrices: one class per kind of YAML file, and the classes of its parts.

The classes are the schema. `matrix.types` reads their fields to decode YAML strictly and to generate the JSON
Schemas, so a new key is one line in a class. Annotations are objects (no `from __future__`), because evaluating text
takes longer than the rest of the import. A trailing underscore (`with_`) avoids a Python keyword and is not part of
the key.
"""

from envbuilder.matrix.model.components import (
    ChipFamily,
    Chips,
    Clash,
    Component,
    KnownFile,
    KnownWheels,
    LocalBase,
    Package,
    Release,
    Root,
    StandIn,
    Submodule,
    System,
)
from envbuilder.matrix.model.install import (
    Engine,
    Framework,
    Hardware,
    LayerSpec,
    MetricNoise,
    Noise,
    Product,
    StepSpec,
    Thresholds,
    UpstreamTag,
    UsedModules,
)
from envbuilder.matrix.model.logs import Gate, Limit, LogSpec
from envbuilder.matrix.model.recipes import Preparation, Recipe, RecipePart, SizeRule
from envbuilder.matrix.model.rows import (
    Algorithm,
    Branch,
    EnvironmentEvidence,
    Evidence,
    EvidenceFile,
    Failure,
    KnownIssue,
    Support,
)
from envbuilder.matrix.model.scalars import (
    CPU,
    GPU,
    INJECTED,
    NPU,
    STAND_IN,
    TODO,
    Arch,
    Depth,
    Device,
    Level,
    Severity,
    StepValue,
    Text,
)
from envbuilder.matrix.model.server import Host, RunSpec, Symptom, Symptoms
from envbuilder.matrix.model.settings import Append, Items, Pin, Setting, Settings, SettingsFile, When
from envbuilder.matrix.model.smoke_runs import SmokeRun, SmokeRunPart
