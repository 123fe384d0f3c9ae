"""Write ``docs/gallery``: every study of ``examples/`` run in its quick form, one telling figure of each, and its answer in words.

Run ``python docs/make_gallery.py`` after a change of the model or of the figures (ten minutes), or with names of studies to make
those anew only. Results are kept in ``experiments/gallery``, so a second call runs only what is missing. Those of another
version of the code are removed from it: they do not belong in one figure with what is run now.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from endive.output_files import discard
from endive.runs.stored import removable

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "gallery"
RESULTS = Path("experiments/gallery")
ANSWERS = FOLDER / "answers.json"
"""What the studies answered when their figures were made."""


@dataclass(frozen=True)
class Study:
    """An example, the figure that tells most about it, and what to see in it."""

    name: str
    title: str
    figure: str
    shows: str

    @property
    def anchor(self) -> str:
        """The anchor that GitHub gives its heading."""
        return "".join(c for c in self.title.lower().replace(" ", "-") if c.isalnum() or c == "-")

    @property
    def kind(self) -> str:
        """The folder of ``examples`` that it is in."""
        return "frontier" if self.figure == "answer" else "sweeps"


STUDIES = (
    Study(
        "load_by_provider",
        "Saturation, by store",
        "latency_throughput",
        "Commits are quick until the store's round trips fill the time between two commits. From there on, more load gives latency "
        "and aborts rather than commits.",
    ),
    Study(
        "catalog_latency",
        "The latency of the catalog",
        "success_load",
        "A catalog that answers in a millisecond does not make commits free: the manifest list still has to be written to S3 "
        "before each attempt.",
    ),
    Study(
        "tables",
        "The number of tables",
        "success_load",
        "With one pointer for all tables, more tables spare transactions the repair of their manifest lists, but not the race for "
        "the pointer.",
    ),
    Study(
        "groups",
        "Table groups",
        "success_load",
        "A pointer for each table, as REST and JDBC catalogs have, carries what a single-file catalog of 64 tables cannot.",
    ),
    Study(
        "backoff",
        "Backoff or not",
        "latency_throughput",
        "Waiting before a retry wins some commits near saturation, and everybody pays for them with latency.",
    ),
    Study(
        "catalog_designs",
        "CAS, append, ML+, inlining",
        "catalogs_latency",
        "Inlining and lists that are appended to (ML+) each take a little off the latency. A log in place of compare-and-swap adds "
        "to it: appends that come too late are sent again, and a read has to tell the outcome.",
    ),
    Study(
        "inlining",
        "Table metadata inlined or not",
        "latency_throughput",
        "Metadata in a file of its own costs a read before the work and a write in each attempt, and so a part of the throughput.",
    ),
    Study(
        "merge_append_starvation",
        "Merge appends that starve",
        "frontier",
        "A writer that merges manifests gets through as long as there are few of them. When there are hundreds, a stream of one "
        "append per second leaves it no gap; a faster stream makes hundreds by itself.",
    ),
    Study(
        "maintenance",
        "Maintenance beside ingestion",
        "frontier",
        "A validated overwrite has to read what came between, and while it reads, more comes. On a slow store it never gets there.",
    ),
    Study(
        "maintenance_paths",
        "One maintenance job in four forms",
        "success_by_class",
        "Which of them commits is a matter of what is validated and of whether manifests are merged, not of the work.",
    ),
    Study(
        "uncommittable",
        "The un-committable frontier",
        "answer",
        "The rate of appends from which on fewer than 95 % of the overwrites commit, if every append overlaps with them.",
    ),
    Study(
        "uncommittable_iceberg",
        "The frontier on Iceberg's commit path",
        "answer",
        "The same question for a serializable overwrite of a partition that nobody else writes: validation reads every manifest "
        "list all the same.",
    ),
    Study(
        "retries_where",
        "Client retries, server retries, group commit",
        "question",
        "At 16 appends per second to one table, clients that try again get a third of it through, a server that applies appends "
        "again is busy with doing so, and one that commits together what waits for the table carries all of it.",
    ),
    Study(
        "catalog_queue",
        "The queue before a catalog",
        "question",
        "A queue is not to be seen until the workers are busy three quarters of the time; beyond, it is all there is to be seen.",
    ),
    Study(
        "backoff_kinds",
        "Ways to wait, for 5, 20 and 100 writers",
        "question",
        "Five writers need no backoff and twenty are quicker without one; of a hundred, most give up unless they wait.",
    ),
    Study(
        "one_committer",
        "One committer against many",
        "question",
        "Eighty writers that each commit get half of their work through. One that commits for all of them gets all of it through, "
        "and half a second after it was handed over.",
    ),
    Study(
        "lost_answers",
        "Lost answers, with and without keys",
        "question",
        "Looking into the catalog and idempotency keys cost little. A blind retry commits again what was committed already: the "
        "column duplicates counts it.",
    ),
)
"""A study is in the gallery once its figure was made."""

HEAD = """\
# Gallery

<!-- Made by docs/make_gallery.py. Do not edit. -->

Studies that run in about a minute each, with the question, the figure that tells most, and the answer that the study gives by
itself. Each command below writes all figures, and of a sweep a report. `endive examples` lists the studies; `--full` in place of
the quick form gives more loads, more seeds and longer runs.
"""


def make(study: Study) -> list[str]:
    """Run a study, put its figure into the gallery, and return its answer."""
    folder = RESULTS / study.name
    remove_old(ROOT / folder)
    answer = json.loads(endive("examples", "run", study.name, "-o", str(folder), "--json"))
    if study.figure == "answer":
        drawn = next(Path(file) for file in answer["files"] if file.endswith(".png"))
    else:
        endive("plot", str(folder), "--figure", study.figure, "--format", "png", "-o", str(folder / "figures"))
        drawn = folder / "figures" / f"{study.figure}.png"
    with Image.open(ROOT / drawn) as image:  # a hundred colours are enough, and a third of the bytes
        image.convert("RGB").quantize(100).save(FOLDER / f"{study.name}.png", optimize=True)
    return list(answer["answer"])


def remove_old(folder: Path) -> None:
    """Remove the experiments of a study that another version of the code has run; nothing else that may lie there."""
    for experiment in removable(folder, incomplete=False, old=True):
        discard(experiment)


def endive(*arguments: str) -> str:
    """Call the command line in the root of the checkout; returns what it prints."""
    command = [sys.executable, "-m", "endive", *arguments]
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def page(answers: dict[str, list[str]]) -> str:
    """The index of the gallery."""
    parts, made = [HEAD], [study for study in STUDIES if study.name in answers]
    parts += [f"- [{study.title}](#{study.anchor})" for study in made]
    for study in made:
        parts += ["", f"## {study.title}", "", study.shows, "", f"![{study.title}]({study.name}.png)", ""]
        parts += [f"> - {sentence}" for sentence in answers[study.name]]
        parts += [
            "",
            f"`endive examples run {study.name}` runs [{study.name}.toml](../../examples/{study.kind}/{study.name}.toml).",
        ]
    return "\n".join(parts) + "\n"


def main(names: list[str]) -> None:
    """Make the figures of these studies, or of all, and the index."""
    FOLDER.mkdir(exist_ok=True)
    answers = json.loads(ANSWERS.read_text(encoding="utf-8")) if ANSWERS.exists() else {}
    for study in STUDIES:
        if not names or study.name in names:
            answers[study.name] = make(study)
            ANSWERS.write_text(json.dumps(answers, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    (FOLDER / "README.md").write_text(page(answers), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
