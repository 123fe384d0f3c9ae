"""Generate ``docs/gallery``: one figure and the answer of every study of ``examples/``, run in its quick form.

Run ``python docs/make_gallery.py`` after a change to the model or to the figures (10 min), or with names of studies to update only
those. Results are kept in ``experiments/gallery``, so a second call runs only missing experiments. Results of another version of
the code are removed first.
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
"""Answers of the studies, from the same runs as their figures."""


@dataclass(frozen=True)
class Study:
    """Example with its figure for the gallery and a description of the result."""

    name: str
    title: str
    figure: str
    shows: str

    @property
    def anchor(self) -> str:
        """Anchor of its heading on GitHub."""
        return "".join(c for c in self.title.lower().replace(" ", "-") if c.isalnum() or c == "-")

    @property
    def kind(self) -> str:
        """Subdirectory of ``examples`` that contains it."""
        return "frontier" if self.figure == "answer" else "sweeps"


STUDIES = (
    Study(
        "load_by_provider",
        "Saturation by object store",
        "latency_throughput",
        "Commits are fast until the round trips to the object store take up the time between two commits. At higher loads, "
        "latency and aborts increase, but throughput does not.",
    ),
    Study(
        "catalog_latency",
        "Catalog latency",
        "success_load",
        "A catalog that responds within 1 ms does not make commits free, because each attempt still writes a manifest list to S3.",
    ),
    Study(
        "tables",
        "Number of tables",
        "success_load",
        "In this study, all tables share one commit pointer, so a commit to any table can lose the race. With more tables, "
        "fewer retries have to rewrite a manifest list.",
    ),
    Study(
        "groups",
        "Table groups",
        "success_load",
        "With one commit pointer per table, as in REST and JDBC catalogs, 64 tables sustain a load that overloads a single-file "
        "catalog.",
    ),
    Study(
        "backoff",
        "With and without backoff",
        "latency_throughput",
        "Backoff does not significantly increase the maximum sustainable load, but it increases the time to commit.",
    ),
    Study(
        "catalog_designs",
        "CAS, append, ML+, inlining",
        "catalogs_latency",
        "Inlining table metadata and appending to manifest lists (ML+) each reduce latency slightly. A catalog log has a "
        "higher latency than compare-and-swap, because the client sends an append again if the log has grown in the meantime, "
        "and then reads the log to learn the outcome.",
    ),
    Study(
        "inlining",
        "Inlined table metadata",
        "latency_throughput",
        "Table metadata in a separate file costs a read before the job and a write in each attempt, which reduces throughput.",
    ),
    Study(
        "merge_append_starvation",
        "Starvation of merge appends",
        "frontier",
        "A writer that merges manifests can commit while the table has few manifests. With hundreds of manifests, one append "
        "per second by another class prevents most of its commits, and a faster stream of appends itself produces hundreds of "
        "manifests.",
    ),
    Study(
        "maintenance",
        "Maintenance during ingestion",
        "frontier",
        "A validated overwrite reads the manifest lists of concurrent commits, and meanwhile more transactions commit. On a "
        "slow object store, the overwrite never commits.",
    ),
    Study(
        "maintenance_paths",
        "Four variants of a maintenance job",
        "success_by_class",
        "All variants take three minutes. Whether a variant commits depends on how it validates and on whether manifests are "
        "merged.",
    ),
    Study(
        "uncommittable",
        "Load at which overwrites no longer commit",
        "answer",
        "This search finds the rate of appends above which fewer than 95% of overwrites commit. Every append overlaps with "
        "the overwrites.",
    ),
    Study(
        "uncommittable_iceberg",
        "The same load on Iceberg's commit path",
        "answer",
        "This search finds the rate of appends above which fewer than 95% of serializable overwrites commit. The overwrites "
        "replace files of a partition to which no other transaction writes, but validation still reads every manifest list.",
    ),
    Study(
        "retries_where",
        "Client retries, server retries, group commit",
        "question",
        "With client retries, one third of the transactions commit at 16 appends/s to one table. Server retries increase the "
        "load on the server. Group commit combines all waiting appends into one commit and sustains the whole load.",
    ),
    Study(
        "catalog_queue",
        "Queueing at the catalog",
        "question",
        "Queueing at the catalog is negligible as long as its workers are utilized at most 75%. Above that, it dominates "
        "commit time.",
    ),
    Study(
        "backoff_kinds",
        "Kinds of backoff, for 5, 20 and 100 writers",
        "question",
        "Five writers need no backoff, and 20 writers are faster without it. With 100 writers and no backoff, most "
        "transactions abort.",
    ),
    Study(
        "one_committer",
        "One committer or many",
        "question",
        "If each of 80 writers commits its own transactions, half of them abort. A single committer for all writers commits "
        "every file batch about 500 ms after receiving it.",
    ),
    Study(
        "lost_answers",
        "Lost responses, with and without idempotency keys",
        "question",
        "A status check or idempotency keys cost little. A retry without a check repeats a commit that has taken effect; the "
        "column `duplicates` counts these.",
    ),
    Study(
        "failing_requests",
        "Requests that fail permanently",
        "question",
        "Between its job and its commit, an append sends five requests. If 5% of the requests to a REST catalog and its "
        "object store fail permanently, 22% of the appends abort. If the SDK resends failed requests, no append aborts.",
    ),
    Study(
        "compaction_interval",
        "How often to compact",
        "question",
        "A compaction conflicts with a MERGE that deletes rows of the files being compacted. Short compactions, and those "
        "that commit in parts, succeed more often than long ones.",
    ),
    Study(
        "formats",
        "Iceberg, Delta, Lance and DuckLake",
        "question",
        "This study compares the commit protocols of four table formats, with 5, 20 and 100 writers that append to one table "
        "on S3.",
    ),
    Study(
        "iceberg_v4",
        "Iceberg v4, as proposed",
        "question",
        "For each commit, Iceberg v4 writes a single root manifest instead of a manifest, a manifest list and metadata.json. "
        "A commit therefore takes less time, and fewer commits lose the race.",
    ),
)
"""Studies of the gallery. A study is listed once its figure exists."""

HEAD = """\
# Gallery

<!-- Made by docs/make_gallery.py. Do not edit. -->

Each of these studies runs in about a minute. For each study, this page shows one figure and the answer that its command prints. The
command also writes the other figures and, for a sweep, a report. `endive examples` lists the studies. `--full` simulates more
loads, more seeds and longer runs.
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
    with Image.open(ROOT / drawn) as image:  # a palette of 100 colors reduces the size to a third
        image.convert("RGB").quantize(100).save(FOLDER / f"{study.name}.png", optimize=True)
    return list(answer["answer"])


def remove_old(folder: Path) -> None:
    """Remove the experiments of a study that were run by another version of the code, and no other files."""
    for experiment in removable(folder, incomplete=False, old=True):
        discard(experiment)


def endive(*arguments: str) -> str:
    """Run a command of ``endive`` in the root of the checkout and return its output."""
    command = [sys.executable, "-m", "endive", *arguments]
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def page(answers: dict[str, list[str]]) -> str:
    """Return the index of the gallery."""
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
    """Generate the figures of the given studies, or of all, and the index."""
    FOLDER.mkdir(exist_ok=True)
    answers = json.loads(ANSWERS.read_text(encoding="utf-8")) if ANSWERS.exists() else {}
    for study in STUDIES:
        if not names or study.name in names:
            answers[study.name] = make(study)
            ANSWERS.write_text(json.dumps(answers, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    (FOLDER / "README.md").write_text(page(answers), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
