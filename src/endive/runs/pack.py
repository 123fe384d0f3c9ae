"""Pack a study into one archive with checksums of its files, and check an unpacked study.

The archive contains the directory of experiments (configurations, rows, summaries, provenance, metrics, figures, report), the
versions of the packages that packed it, and a manifest with the checksum of every file.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

from endive import __version__
from endive.input_files import read_json
from endive.output_files import checksum, whole_file
from endive.runs.layout import (
    FIGURES_FOLDER,
    LOCK,
    METRICS_FOLDER,
    PACK_LOCK,
    PACK_MANIFEST,
    REPORT,
    is_experiment,
    study_plans,
)
from endive.version import METRICS_VERSION, MODEL_VERSION

_PACKAGE = "endive"
_DATE = (1980, 1, 1, 0, 0, 0)
"""Date of all entries, so that the same files give the same archive."""
_COMPRESSED = {".parquet", ".png", ".pdf"}
_NAME = re.compile(r"^[A-Za-z0-9._-]+")


def pack_study(root: Path, archive: Path) -> dict[str, str]:
    """Write the study of a directory to an archive atomically, and return the checksums by file.

    Files that do not belong to a study, such as the consolidated dataset, are not packed.
    """
    files = {path.relative_to(root).as_posix(): path for path in sorted(list_study_files(root))}
    lock = "".join(f"{line}\n" for line in lock_versions())
    checksums = {name: checksum(path) for name, path in files.items()}
    checksums[PACK_LOCK] = hashlib.sha256(lock.encode()).hexdigest()
    manifest = {
        "endive_version": __version__,
        "model_version": MODEL_VERSION,
        "metrics_version": METRICS_VERSION,
        "check": "endive experiments verify DIRECTORY",
        "sha256": checksums,
    }
    with whole_file(archive) as temporary, ZipFile(temporary, "w") as target:
        for name, path in files.items():
            _add(target, f"{archive.stem}/{name}", path.read_bytes())
        _add(target, f"{archive.stem}/{PACK_LOCK}", lock.encode())
        _add(target, f"{archive.stem}/{PACK_MANIFEST}", (json.dumps(manifest, indent=2) + "\n").encode())
    return checksums


def _add(target: ZipFile, name: str, content: bytes) -> None:
    entry = ZipInfo(name, _DATE)
    entry.external_attr = 0o644 << 16
    target.writestr(entry, content, ZIP_STORED if Path(name).suffix in _COMPRESSED else ZIP_DEFLATED)


def list_study_files(root: Path) -> Iterator[Path]:
    """Yield the files of a study: experiments, study file and plan, metrics, figures and report. Links are skipped."""
    places = [path for path in root.iterdir() if path.is_dir() and not path.is_symlink() and is_experiment(path)]
    places += [root / METRICS_FOLDER, root / FIGURES_FOLDER, *{path.parent for path in study_plans(root)}]
    for place in places:
        yield from (path for path in place.rglob("*") if _is_content(path))
    if _is_content(root / REPORT):
        yield root / REPORT


def _is_content(path: Path) -> bool:
    return path.is_file() and not path.is_symlink() and not path.name.startswith(".") and path.name != LOCK


def lock_versions(package: str = _PACKAGE) -> list[str]:
    """Return the installed versions of a package and of all its dependencies, as ``name==version``."""
    found: dict[str, str] = {}
    waiting = [package]
    while waiting:
        name = waiting.pop()
        key = re.sub(r"[-_.]+", "-", name).lower()
        if key in found:
            continue
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError:  # required on other systems, or by an extra that is not installed
            continue
        found[key] = __version__ if key == _PACKAGE else distribution.version
        required = [each for each in distribution.requires or () if "extra ==" not in each]
        waiting += [match[0] for each in required if (match := _NAME.match(each)) is not None]
    return [f"{name}=={version}" for name, version in sorted(found.items())]


def check_pack(root: Path) -> list[str]:
    """Return the differences between an unpacked study and its manifest; empty if the directory is not an unpacked study."""
    file = root / PACK_MANIFEST
    if not file.is_file():
        return []
    try:
        expected = {str(name): str(digest) for name, digest in read_json(file)["sha256"].items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return [f"{PACK_MANIFEST} is damaged"]
    problems = []
    for name, digest in sorted(expected.items()):
        path = root / name
        if Path(name).is_absolute() or ".." in Path(name).parts:
            problems.append(f"{PACK_MANIFEST} lists {name}, which is outside of the directory")
        elif not path.is_file():
            problems.append(f"{name} is missing")
        elif checksum(path) != digest:
            problems.append(f"{name} differs from its checksum in {PACK_MANIFEST}")
    return problems
