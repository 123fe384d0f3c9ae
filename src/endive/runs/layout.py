"""Define the names and locations of files. Only this module contains these names.

    ROOT/LABEL-HASH/cfg.toml  version.txt                                   an experiment
    ROOT/LABEL-HASH/SEED/results.parquet  summary.json  provenance.json     a run (with --trace also trace.parquet)
    ROOT/consolidated/experiment=NAME/operation_type=OPERATION/part-00000.parquet
    ROOT/metrics/by_run.parquet  by_run.csv  ...  units/KEY-CHECKSUM.parquet
    ROOT/report.html  ROOT/figures/
    ROOT/studies/LABEL.toml  LABEL.json                                     the file of a study, and its plan
    ROOT/.rows/LABEL-HASH/...                                               runs whose rows are not kept, until they are measured

The files of a run without a label are next to its ``output_path``: ``out.parquet``, ``out.summary.json``, ``out.provenance.json``
and so on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

RESULTS, SUMMARY, PROVENANCE, TRACE = "results.parquet", "summary.json", "provenance.json", "trace.parquet"
CONFIG, VERSION = "cfg.toml", "version.txt"
_MEASURING = "rows.arrow"
RUN_METRICS, WINDOW = "metrics.json", "window.json"
DATASET_FOLDER, LOCK = "consolidated", ".lock"
METRICS_FOLDER, METRICS_STATE = "metrics", "_state.json"
METRICS_TABLES = {
    "runs": "by_run",
    "experiments": "by_experiment",
    "saturation": "saturation",
    "distributions": "distributions",
    "over_time": "over_time",
}
"""File names without extension of the tables of metrics, by view name."""
REPORT, FIGURES_FOLDER = "report.html", "figures"
FRONTIER, TUNING, SCREENING = "frontier.json", "tune.json", "screen.json"
REPLICATIONS_FOLDER = "runs"
PACK_MANIFEST, PACK_LOCK = "pack.json", "requirements.lock"
"""Files of a packed study: the checksums of all other files, and the versions of the packages that created it."""
_STUDIES_FOLDER = "studies"


@dataclass(frozen=True)
class RunFiles:
    """Files of a run."""

    results: Path
    summary: Path
    provenance: Path
    trace: Path
    config: Path
    version: Path

    @classmethod
    def in_directory(cls, run: Path) -> RunFiles:
        """Return the files of a run, given the directory of the run."""
        experiment = run.parent
        return cls(run / RESULTS, run / SUMMARY, run / PROVENANCE, run / TRACE, experiment / CONFIG, experiment / VERSION)

    @classmethod
    def beside(cls, results: Path) -> RunFiles:
        """Return the files of a run without a label, given the results file."""

        def named(name: str) -> Path:
            return results.with_name(f"{results.stem}.{name}")

        return cls(results, named(SUMMARY), named(PROVENANCE), named(TRACE), named(CONFIG), named(VERSION))

    @property
    def measuring(self) -> Path:
        """Temporary file from which the run is measured if the study does not keep all rows."""
        return self.results.with_name(_MEASURING)

    def own_profile(self, section: str) -> Path:
        """Return the path of the copy of a custom profile, next to the configuration that refers to it."""
        return self.config.with_name(self.config.name.removesuffix(CONFIG) + f"{section}{_OWN_PROFILE}")

    def own_protocol(self, name: str) -> Path:
        """Return the path of the copy of a protocol file, next to the configuration that refers to it."""
        return self.config.with_name(self.config.name.removesuffix(CONFIG) + f"{name}{_OWN_PROTOCOL}")

    def own_part(self, kind: str) -> Path:
        """Return the path of the copy of the code of a custom component, next to the configuration that refers to it."""
        return self.config.with_name(self.config.name.removesuffix(CONFIG) + f"{kind}_part.py")


_OWN_PROFILE = "-provider.toml"
_OWN_PROTOCOL = "-protocol.toml"


def named_experiment(root: Path, label: str | None, digest: str) -> Path:
    """Return the directory of an experiment, given its label and hash."""
    return root / f"{label}-{digest}"


def label_of(experiment: Path) -> str:
    """Return the label in the name of an experiment's directory."""
    return experiment.name.rpartition("-")[0] or experiment.name


def hash_of(name: str) -> str | None:
    """Return the hash in the name of an experiment's directory; None if the name contains no hash."""
    digest = name.rpartition("-")[2]
    return digest if _HASH.fullmatch(digest) else None


def run_directory(experiment: Path, seed: int) -> Path:
    """Return the directory of a run of an experiment."""
    return experiment / str(seed)


def measured_file(run: Path) -> Path:
    """Return the file from which a run is measured: its results, or the temporary file of a run in the scratch directory."""
    files = RunFiles.in_directory(run)
    return files.measuring if files.measuring.exists() else files.results


def is_experiment(directory: Path) -> bool:
    """Return whether a directory contains an experiment."""
    return (directory / CONFIG).is_file()


def is_seed(name: str) -> bool:
    """Return whether a directory name is the name of a run, which is a seed in canonical decimal form."""
    return _SEED.fullmatch(name) is not None


_HASH = re.compile(r"[0-9a-f]{8,64}")
_SEED = re.compile(r"0|[1-9][0-9]{0,18}")


def study_file(root: Path, label: str) -> Path:
    """Return the path of the self-contained file of a study."""
    return root / _STUDIES_FOLDER / f"{label}.toml"


def study_plan(root: Path, label: str) -> Path:
    """Return the path of the plan of a study."""
    return root / _STUDIES_FOLDER / f"{label}.json"


def study_plans(root: Path) -> list[Path]:
    """Return the paths of the study plans in a directory of experiments, by label."""
    return sorted((root / _STUDIES_FOLDER).glob("*.json"))


def scratch_directory(root: Path) -> Path:
    """Return the directory for runs whose rows a study does not keep. Runs stay in this directory until they are measured."""
    return root / ".rows"


def dataset_folder(root: Path) -> Path:
    """Return the path of the consolidated dataset of a directory of experiments."""
    return root / DATASET_FOLDER


def part_file(dataset: Path, experiment: str, operation: str, number: int) -> Path:
    """Return the path of part ``number`` of the rows of an operation."""
    return dataset / f"experiment={experiment}" / f"operation_type={operation}" / f"part-{number:05d}.parquet"


def part_files(dataset: Path) -> Iterator[Path]:
    """Yield all existing part files, without following links to other directories."""
    for experiment in dataset.glob("experiment=*"):
        for operation in () if experiment.is_symlink() else experiment.glob("operation_type=*"):
            yield from () if operation.is_symlink() else operation.glob("part-*.parquet")


def measured_units(root: Path) -> Path:
    """Return the directory of the rows of metrics, with one file per measurement unit."""
    return root / METRICS_FOLDER / "units"


def metrics_table(root: Path, name: str, ending: str) -> Path:
    """Return the file of a table of metrics; ``ending`` is the extension, parquet or csv."""
    return root / METRICS_FOLDER / f"{name}.{ending}"
