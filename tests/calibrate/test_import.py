"""Tables of all kinds are imported, or refused with a sentence."""

from __future__ import annotations

import gzip
import json
import os
import random
import tomllib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from endive.calibrate import InputError
from endive.calibrate.arrival_fit import _ROUND_MS as ROUND_MS
from endive.calibrate.arrival_fit import list_multiples
from endive.calibrate.measurements import CommitReport, read_reports
from endive.calibrate.sources import open_filesystem, open_history
from endive.calibrate.table_history import History, parse_metadata
from endive.calibrate.table_import import Imported, configuration_text, import_history
from endive.config.load import check_document
from tests.calibrate.mutations import mutated
from tests.calibrate.tables import START_MS, metadata_document

TIMES = [START_MS + 60_000 * n + (n * 7919) % 500 for n in range(40)]


def imported(document: dict[str, Any], **options: Any) -> Imported:
    made = import_history(parse_metadata(json.dumps(document).encode(), "t.json"), **options)
    check_document(tomllib.loads(configuration_text(made)), "made")
    return made


def with_summaries(change: Any) -> dict[str, Any]:
    document = metadata_document(TIMES)
    for place, snapshot in enumerate(document["snapshots"]):
        snapshot["summary"] = change(place)
    return document


class TestOtherWriters:
    def test_version_1_has_manifests_in_place_of_a_list_and_no_summary(self) -> None:
        document = metadata_document(TIMES, **{"format-version": 1, "partition-spec": [{"name": "d"}]})
        for key in ("partition-specs", "refs", "last-sequence-number", "metadata-log", "snapshot-log"):
            document.pop(key)
        for snapshot in document["snapshots"]:
            del snapshot["summary"], snapshot["manifest-list"], snapshot["sequence-number"]
            snapshot["manifests"] = ["s3://nowhere/m.avro"]
        made = imported(document)
        assert [cls.operation for cls in made.classes] == ["fast_append"]
        assert made.tree["catalog"]["partitions"] == {"num_partitions": 2}

    def test_version_3_with_deletion_vectors_is_a_row_delta(self) -> None:
        def summary(place: int) -> dict[str, str]:
            return {"operation": "overwrite", "added-dvs": "2", "added-delete-files": "2", "engine-name": "spark"}

        made = imported({**with_summaries(summary), "format-version": 3, "next-row-id": 5})
        assert made.tree["workload"]["spark_overwrite"]["operation"] == "row_delta"
        assert made.tree["workload"]["spark_overwrite"]["delete_files"] == "vectors"

    def test_tags_branches_and_statistics_do_no_harm(self) -> None:
        refs = {
            "main": {"snapshot-id": 40, "type": "branch"},
            "audit": {"snapshot-id": 39, "type": "branch"},
            "v1": {"snapshot-id": 3, "type": "tag"},
        }
        statistics = [{"snapshot-id": 3, "statistics-path": "s3://nowhere/x.puffin", "blob-metadata": []}]
        made = imported(metadata_document(TIMES, refs=refs, statistics=statistics))
        assert any("audit" in note for note in made.notes)

    def test_names_cannot_break_out_of_a_comment(self) -> None:
        refs = {"x\nprovider = 'y'\n\ud800": {"snapshot-id": 39, "type": "branch"}}
        text = configuration_text(imported(metadata_document(TIMES, refs=refs)))
        assert tomllib.loads(text.encode().decode())["storage"] == {"provider": "s3"}

    def test_partition_evolution_takes_the_current_specification(self) -> None:
        specs = [{"spec-id": 0, "fields": []}, {"spec-id": 1, "fields": [{"name": "day", "transform": "day", "source-id": 1}]}]
        assert (
            "partitions" in imported(metadata_document(TIMES, **{"partition-specs": specs, "default-spec-id": 1})).tree["catalog"]
        )
        assert "partitions" not in imported(metadata_document(TIMES, **{"partition-specs": specs})).tree["catalog"]

    def test_gzip_is_unpacked(self, tmp_path: Path) -> None:
        path = tmp_path / "00001.gz.metadata.json"
        path.write_bytes(gzip.compress(json.dumps(metadata_document(TIMES)).encode()))
        assert len(open_history(str(path)).commits) == 40

    def test_optional_fields_may_be_missing(self) -> None:
        document = {"format-version": 2, "snapshots": [{"snapshot-id": n, "timestamp-ms": t} for n, t in enumerate(TIMES)]}
        assert imported(document).tree["table"]["snapshots"] == 40

    def test_an_expired_log_is_read_from_its_first_snapshot(self) -> None:
        """Logs and parents name snapshots that are gone; the first one left is no earlier than the log says."""
        document = metadata_document(TIMES)
        document["snapshots"] = document["snapshots"][25:]
        document["snapshots"][0]["parent-snapshot-id"] = 25
        document["snapshot-log"] = [{"snapshot-id": n, "timestamp-ms": t} for n, t in enumerate(TIMES[20:], 21)]
        document["metadata-log"] = [{"metadata-file": "x", "timestamp-ms": t} for t in TIMES[10:]]
        made = imported(document)
        assert made.tree["table"]["snapshots"] == 15
        assert made.start_ms <= TIMES[25]
        assert "metadata_changes" not in made.tree["workload"]

    def test_a_table_of_two_libraries_has_a_class_for_each(self) -> None:
        """PyIceberg names nothing; releases of the Java library before they named themselves are not taken for it."""

        def summary(place: int) -> dict[str, str]:
            java = {"iceberg-version": "Apache Iceberg 1.10.2"} if place >= 10 and place % 2 else {}
            return {"operation": "append", **java}

        made = imported(with_summaries(summary))
        assert made.tree["transaction"]["commit_path"] == "iceberg"
        assert {name: section.get("commit_path") for name, section in made.tree["workload"].items()} == {
            "append": None,
            "pyiceberg_append": "pyiceberg",
        }
        assert [len(cls.commits) for cls in made.classes] == [26, 14]
        assert set(imported(with_summaries(summary), client="iceberg").tree["workload"]) == {"append"}

    def test_a_manifest_list_is_read_as_hadoop_writes_its_path(self, tmp_path: Path) -> None:
        from pyiceberg.io.pyarrow import PyArrowFileIO
        from pyiceberg.manifest import write_manifest_list

        with write_manifest_list(2, PyArrowFileIO().new_output(f"{tmp_path}/l.avro"), 40, None, 40, "null") as writer:
            writer.add_manifests([])
        document = metadata_document(TIMES)
        document["snapshots"][-1]["manifest-list"] = f"file:{tmp_path}/l.avro"
        path = tmp_path / "v1.metadata.json"
        path.write_text(json.dumps(document))
        assert open_history(f"file:{path}").state.manifests == 0

    @pytest.mark.parametrize(
        "elsewhere",
        [
            "s3://bucket/list.avro",
            "s3a://bucket/list.avro",
            "s3://bucket/list.avro?endpoint_override=10.0.0.1:80&scheme=http",
            "hdfs://host:8020/list.avro",
            "gs://bucket/list.avro",
            "file://host/list.avro",
        ],
    )
    def test_a_file_of_this_machine_leads_to_no_other(
        self, elsewhere: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Each import of a file from elsewhere waited seconds for a network, to wherever the file said."""

        opened: list[str] = []

        def watched(location: str) -> Any:
            opened.append(location)
            return open_filesystem(location)

        monkeypatch.setattr("endive.calibrate.sources.open_filesystem", watched)
        document = metadata_document(TIMES)
        document["snapshots"][-1]["manifest-list"] = elsewhere
        path = tmp_path / "v1.metadata.json"
        path.write_text(json.dumps(document))
        history = open_history(str(path))
        assert opened == [str(path)]
        assert history.state.manifests is None
        (note,) = [note for note in history.notes if "manifest list" in note]
        assert elsewhere.partition("?")[0] in note

    @pytest.mark.parametrize("place", ["/dev/zero", "pipe"])
    def test_a_manifest_list_that_is_no_file_is_not_waited_for(self, place: str, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe")
        document = metadata_document(TIMES)
        document["snapshots"][-1]["manifest-list"] = str(tmp_path / place)
        path = tmp_path / "v1.metadata.json"
        path.write_text(json.dumps(document))
        assert open_history(str(path)).state.manifests is None

    @pytest.mark.parametrize("count", [0, 1])
    def test_too_few_snapshots_are_refused(self, count: int) -> None:
        with pytest.raises(InputError, match="at least two are needed to estimate a rate"):
            imported(metadata_document(TIMES[:count]))

    def test_snapshots_at_one_time_are_refused(self) -> None:
        with pytest.raises(InputError, match="same time"):
            imported(metadata_document([TIMES[0]] * 3))

    def test_an_overwrite_of_pyiceberg_is_one_commit(self) -> None:
        document = metadata_document([TIMES[0], TIMES[1], TIMES[1] + 40, TIMES[2]])
        document["snapshots"][1]["summary"]["operation"] = "delete"
        document["metadata-log"] = [{"metadata-file": "x", "timestamp-ms": t} for t in (TIMES[0], TIMES[1] + 40)]
        assert [c.operation for c in parse_metadata(json.dumps(document).encode(), "t").commits] == [
            "append",
            "overwrite",
            "append",
        ]

    def test_metadata_changes_of_a_table_that_lacks_snapshots_are_expiry(self) -> None:
        log = [{"metadata-file": "x", "timestamp-ms": TIMES[0] + 300_000 * n + 17} for n in range(7)]
        document = with_summaries(lambda _: {"operation": "append", "iceberg-version": "Apache Iceberg 1.10"})
        document["snapshots"] = document["snapshots"][2:]
        section = imported({**document, "metadata-log": log}).tree["workload"]["metadata_changes"]
        assert section["operation"] == "expire_snapshots"
        assert section["periodic"]["interval_ms"] == 300_000.0
        assert section["retain_snapshots"] == len([time for time in TIMES[2:] if time <= TIMES[0] + 1_800_017])

    @pytest.mark.parametrize("numbered", [True, False])
    def test_metadata_changes_of_a_table_with_all_its_snapshots_are_no_expiry(self, numbered: bool) -> None:
        log = [{"metadata-file": "x", "timestamp-ms": TIMES[0] + 300_000 * n + 17} for n in range(7)]
        document = with_summaries(lambda _: {"operation": "append", "iceberg-version": "Apache Iceberg 1.10"})
        for place, snapshot in enumerate(document["snapshots"]):
            if place:
                snapshot["parent-snapshot-id"] = place
            if not numbered:
                del snapshot["sequence-number"]
        made = imported({**document, "metadata-log": log})
        assert "metadata_changes" not in made.tree["workload"]
        assert any("no snapshots have expired" in note for note in made.notes)
        if not numbered:
            document["snapshots"][0]["parent-snapshot-id"] = 4711
            assert "metadata_changes" in imported({**document, "metadata-log": log}).tree["workload"]

    def test_a_table_of_flink_has_no_failures_that_it_does_not_show(self) -> None:
        """Seven upserts, four metadata changes, sequence numbers 1 to 7: Flink validates nothing, and nothing expired."""
        times = TIMES[:7]
        summary = {
            "operation": "overwrite",
            "flink.job-id": "9f3a",
            "engine-name": "flink",
            "added-data-files": "1",
            "added-equality-delete-files": "1",
            "added-delete-files": "1",
        }
        document = metadata_document(times, properties={"write.merge.isolation-level": "serializable"})
        for snapshot in document["snapshots"]:
            snapshot["summary"] = summary
        document["metadata-log"] = [{"metadata-file": "x", "timestamp-ms": time + 7_000} for time in times[:4]]
        made = imported(document)
        (section,) = made.tree["workload"].values()
        assert (section["operation"], section["isolation"], section["delete_files"]) == ("row_delta", "none", "equality")
        assert not {"real_conflict_probability"} & section.keys()
        assert not any("validate" in each.about for each in made.assumptions)

    def test_changes_of_metadata_are_counted_over_the_log_that_is_left(self) -> None:
        rng = random.Random(2)
        log = [{"metadata-file": "x", "timestamp-ms": TIMES[30] + rng.randrange(9 * 60_000)} for _ in range(27)]
        log.append({"metadata-file": "x", "timestamp-ms": TIMES[30]})
        document = with_summaries(lambda _: {"operation": "append", "iceberg-version": "Apache Iceberg 1.10"})
        document["snapshots"] = document["snapshots"][1:]
        section = imported({**document, "metadata-log": log}).tree["workload"]["metadata_changes"]
        assert section["rate"] == pytest.approx(27 / (9 * 60.0), rel=0.1)


class TestWhatIsFound:
    def test_a_minutely_job_is_periodic_with_its_phase(self) -> None:
        made = imported(metadata_document([START_MS + 12_000 + 60_000 * n for n in range(40) if n not in (7, 20)]))
        section = made.tree["workload"]["append"]
        assert section["periodic"] == {"interval_ms": 60_000.0, "phase_ms": 12_000.0}
        assert any("5.0% of the scheduled commits" in each.assumed for each in made.assumptions)

    def test_engines_applications_and_sizes_are_reported_apart(self) -> None:
        def summary(place: int) -> dict[str, str]:
            job = ("a", "b")[place % 2]
            return {"operation": "append", "engine-name": "flink", "flink.job-id": job, "added-data-files": "1"}

        names = {cls.name for cls in imported(with_summaries(summary)).classes}
        assert names == {"flink_a_append", "flink_b_append"}
        sizes = with_summaries(lambda place: {"operation": "append", "added-data-files": "500" if place % 4 == 0 else "1"})
        assert {cls.name for cls in imported(sizes).classes} == {"append_small", "append_large"}

    @pytest.mark.parametrize(
        ("summary", "operation"),
        [
            ({"operation": "replace"}, "rewrite_files"),
            ({"operation": "overwrite", "replace-partitions": "true"}, "replace_partitions"),
            ({"operation": "overwrite"}, "overwrite"),
            ({"operation": "delete"}, "delete"),
            ({"operation": "append", "manifests-replaced": "3"}, "merge_append"),
            ({"operation": "append"}, "fast_append"),
            ({"operation": "overwrite", "added-equality-deletes": "3"}, "row_delta"),
        ],
    )
    def test_operations(self, summary: dict[str, str], operation: str) -> None:
        java = {**summary, "iceberg-version": "Apache Iceberg 1.10"}
        assert [cls.operation for cls in imported(with_summaries(lambda _: java)).classes] == [operation]

    def test_properties_keep_their_names(self) -> None:
        properties = {
            "commit.retry.num-retries": "9",
            "commit.manifest.min-count-to-merge": "50",
            "commit.manifest-merge.enabled": "false",
            "commit.retry.min-wait-ms": "nonsense",
        }
        made = imported(metadata_document(TIMES, properties=properties))
        assert made.tree["transaction"]["commit.retry.num-retries"] == 9
        assert made.tree["table"]["commit.manifest.min-count-to-merge"] == 50
        assert made.tree["table"]["commit.manifest-merge.enabled"] is False
        assert "commit.retry.min-wait-ms" not in made.tree["transaction"]

    def test_intervals_that_are_tried_do_not_grow_with_the_gaps(self) -> None:
        """One snapshot of another decade made a thousand million multiples of a second."""
        assert len(list_multiples(1e7, 3e8)) <= 1_000 * len(ROUND_MS)
        times = [START_MS + 1_000 * n for n in range(11)]
        assert import_history(parse_metadata(json.dumps(metadata_document([1_780_023_000, *times])).encode(), "t.json")).classes

    def test_an_interval_is_not_taken_for_its_third(self) -> None:
        made = imported(metadata_document([START_MS + 7_000 + 45_000 * n for n in range(40)]))
        assert made.tree["workload"]["append"]["periodic"] == {"interval_ms": 45_000.0, "phase_ms": 7_000.0}

    def test_a_job_that_is_held_up_is_periodic_by_when_it_began(self) -> None:
        rng = random.Random(6)
        slots = sorted(rng.sample(range(80), 14))
        took = [rng.uniform(500.0, 60_000.0) for _ in slots]
        ends = [START_MS + 4_000 + round(30_000 * slot + late) for slot, late in zip(slots, took, strict=True)]
        order = sorted(range(14), key=lambda place: ends[place])
        reports = [CommitReport(n, "append", 1, took[place]) for n, place in enumerate(order, 1)]
        document = metadata_document([ends[place] for place in order])
        section = imported(document, reports=reports).tree["workload"]["append"]
        assert section["periodic"]["interval_ms"] == 30_000.0
        assert section["periodic"]["phase_ms"] == pytest.approx(4_000.0, abs=5.0)
        assert "periodic" not in imported(document).tree["workload"]["append"]

    def test_phases_of_jobs_that_work_before_they_commit_are_shifted_in_the_file_alone(self) -> None:
        document = with_summaries(lambda _: {"operation": "replace", "engine-name": "spark"})
        for n, snapshot in enumerate(document["snapshots"]):
            snapshot["timestamp-ms"] = START_MS + 30_000 + 60_000 * n
        made = imported(document)
        assert made.classes[0].process.keys["periodic"]["phase_ms"] == 30_000.0
        assert made.tree["workload"]["spark_replace"]["periodic"]["phase_ms"] == 18_000.0

    def test_bursts_are_reported(self) -> None:
        rng = random.Random(3)
        times, now = [], START_MS
        for _ in range(60):
            now += rng.randrange(200_000, 900_000)
            times += [now + 700 * n for n in range(rng.randrange(1, 8))]
        assert "bursts" in imported(metadata_document(times)).classes[0].process.words

    def test_a_daily_profile_becomes_a_schedule(self) -> None:
        rng = random.Random(4)
        times = sorted(
            START_MS + day * 86_400_000 + (8 if rng.random() < 0.8 else 20) * 3_600_000 + rng.randrange(3_600_000)
            for day in range(5)
            for _ in range(100)
        )
        schedule = imported(metadata_document([START_MS, *times])).tree["workload"]["append"]["schedule"]
        busiest = [step["from"] for step in schedule if step["rate"] == max(step["rate"] for step in schedule)]
        assert busiest == [(24 * day + 8) * 3_600_000.0 for day in range(5)]

    def test_unknown_properties_are_reported(self) -> None:
        made = imported(with_summaries(lambda _: {"operation": "replace", "engine-name": "spark"}))
        assert {each.about for each in made.assumptions} >= {"latencies", "failed operations", "manifests", "real conflicts"}
        text = configuration_text(made)
        for each in made.assumptions:
            assert each.assumed in text


ROWS = [{"committed_at": TIMES[n], "snapshot_id": n, "operation": "append", "summary": {"added-data-files": "1"}} for n in range(9)]


class TestSnapshotsTable:
    def test_parquet_with_times_and_maps(self, tmp_path: Path) -> None:
        path = tmp_path / "snapshots.parquet"
        kinds = pa.schema(
            [
                ("committed_at", pa.timestamp("ms", "UTC")),
                ("snapshot_id", pa.int64()),
                ("operation", pa.string()),
                ("summary", pa.map_(pa.string(), pa.string())),
            ]
        )
        rows = [{**row, "summary": list(row["summary"].items())} for row in ROWS]  # type: ignore[attr-defined]
        pa.parquet.write_table(pa.Table.from_pylist(rows, kinds), path)
        history = open_history(str(path))
        assert [commit.timestamp_ms for commit in history.commits] == TIMES[:9]
        assert history.commits[0].count("added-data-files") == 1
        import_history(history)

    def test_csv_with_texts(self, tmp_path: Path) -> None:
        path = tmp_path / "snapshots.csv"
        path.write_text(
            "committed_at,snapshot_id,operation,summary\n"
            '2026-05-01 10:00:00.250 UTC,1,append,"{""added-data-files"":""2""}"\n'
            "2026-05-01 10:01:00.250 UTC,2,append,\n"
        )
        history = open_history(str(path))
        assert history.span_ms == 60_000
        assert history.commits[0].count("added-data-files") == 2

    @pytest.mark.parametrize(
        ("row", "hint"),
        [
            ("2026-05-01 10:00:00,1e400,append,", "is not a row of a snapshots metadata table"),
            ("2026-05-01 10:00:00,1,append," + "[" * 100_000, "summary '.* is not JSON"),
            ("x" * 100_000 + ",1,append,", "is not a time"),
        ],
    )
    def test_invalid_rows_are_rejected(self, tmp_path: Path, row: str, hint: str) -> None:
        path = tmp_path / "snapshots.csv"
        path.write_text(f"committed_at,snapshot_id,operation,summary\n{row}\n")
        with pytest.raises(InputError, match=hint) as caught:
            open_history(str(path))
        assert len(str(caught.value)) < 600

    def test_another_csv_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "other.csv"
        path.write_text("a,b\n1,2\n")
        with pytest.raises(InputError, match="committed_at"):
            open_history(str(path))


@pytest.mark.parametrize(
    ("content", "hint"),
    [
        (b"", "is not JSON"),
        (b"hello", "is not JSON"),
        (b"[]", "not the metadata"),
        (b"{}", "not the metadata"),
        (b'{"format-version": 9}', "format-version is 9"),
        (b'{"format-version": 2, "snapshots": 5}', "snapshots"),
        (b'{"format-version": 2, "snapshots": [{"snapshot-id": "x"}]}', "snapshot-id is 'x'"),
        (b'{"format-version": 2, "snapshots": [{"snapshot-id": 1, "timestamp-ms": -5}]}', "timestamp-ms"),
        (gzip.compress(b"{}", mtime=0)[:8], "gzip"),
        (b"[" * 100_000, "is not JSON"),
    ],
)
def test_invalid_metadata_is_rejected(content: bytes, hint: str) -> None:
    with pytest.raises(InputError, match=hint):
        parse_metadata(content, "t.json")


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        (('"total-duration": 5', '"total-duration": 1' + "0" * 400), "is not a commit report"),
        (('"value": 1', '"value": 1e400'), "is not a commit report"),
        (('"value": 1', '"value": 1' + "0" * 30), "attempts in .* cannot be"),
        (('"snapshot-id": 1', '"snapshot-id": 1e400'), "is not a commit report"),
        (('"snapshot-id": 1', '"snapshot-id": 1' + "0" * 30), "is not a commit report"),
    ],
)
def test_numbers_that_no_report_has_are_refused_in_a_sentence(tmp_path: Path, change: tuple[str, str], hint: str) -> None:
    metrics = {"total-duration": {"total-duration": 5}, "attempts": {"value": 1}}
    file = tmp_path / "reports.jsonl"
    file.write_text(json.dumps({"snapshot-id": 1, "operation": "append", "metrics": metrics}).replace(*change))
    with pytest.raises(InputError, match=rf"reports\.jsonl: line 1:? .*{hint}"):
        read_reports(file)


@pytest.mark.parametrize("name", ["nowhere/x.metadata.json", "file:///nowhere/x.json", "what://is/this.json", "noname"])
def test_missing_metadata_is_rejected(name: str) -> None:
    with pytest.raises(InputError):
        open_history(name)


def try_one(content: bytes) -> History | None:
    """Import a broken file: a configuration that loads, or one sentence."""
    try:
        history = parse_metadata(content, "t.json")
        made = import_history(history)
    except InputError as error:
        refused = str(error)
    else:
        text = configuration_text(made).encode().decode()
        check_document(tomllib.loads(text), "made")
        return history
    assert "\n" not in refused
    return None


def test_mutated_metadata_does_no_harm() -> None:
    """A fixed part of the 2,000 that ``make fuzz-metadata`` tries."""
    outcomes = [try_one(mutated(seed)) for seed in range(120)]
    assert 10 < sum(outcome is not None for outcome in outcomes) < 120


class TestReports:
    def test_other_reports_are_passed_over(self, tmp_path: Path) -> None:
        commit = {
            "snapshot-id": 5,
            "operation": "append",
            "metrics": {"total-duration": {"time-unit": "nanoseconds", "total-duration": 2_000_000}, "attempts": {"value": 3}},
        }
        scan = {"report-type": "scan-report", "metrics": {}}
        path = tmp_path / "reports.jsonl"
        path.write_text("\n".join(json.dumps(each) for each in (commit, scan, {"report-type": "commit-report", "report": commit})))
        found = read_reports(path)
        assert [(report.attempts, report.duration_ms) for report in found] == [(3, 2.0), (3, 2.0)]

    @pytest.mark.parametrize("text", ["", "nonsense", '{"metrics": {"total-duration": {}}}', '{"a": 1}'])
    def test_invalid_reports_are_rejected(self, tmp_path: Path, text: str) -> None:
        path = tmp_path / "reports.jsonl"
        path.write_text(text)
        with pytest.raises(InputError, match=r"reports\.jsonl"):
            read_reports(path)


@pytest.mark.parametrize(
    "content",
    [b"\x1f\x8bnothing", gzip.compress(b"x" * 9_000, mtime=0)[:-9], b"[" * 90_000],
    ids=["not gzip", "cut gzip", "deep JSON"],
)
def test_reports_that_are_broken_are_refused_with_a_sentence(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "reports.jsonl").write_bytes(content)
    with pytest.raises(InputError):
        read_reports(tmp_path / "reports.jsonl")
