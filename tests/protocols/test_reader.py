"""Protocol files: what is read, what is refused, and with which key, line and reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from endive.config import ConfigError
from endive.protocols.reader import builtin_names, describe, find_protocol, line_of, load_protocol, parse_protocol

LOG = """
[commit]
point = "put_if_absent"

[[load]]
operation = "list"
object = "log"

[[after_loss]]
operation = "list"
object = "log"

[[after_loss]]
operation = "read"
object = "log"
per_version_behind = 1

[retries]
limit = 3
"""


def refused(text: str) -> str:
    with pytest.raises(ConfigError) as error:
        parse_protocol(text, "my.toml", "my")
    return str(error.value)


def test_a_minimal_protocol_is_read_with_its_defaults() -> None:
    protocol = parse_protocol(LOG, "my.toml", "my").protocol
    assert (protocol.name, protocol.client, protocol.commit_point, protocol.scope) == ("my", "my", "put_if_absent", "table")
    assert [step.discovers for step in protocol.phase("load")] == [True]
    assert [step.discovers for step in protocol.phase("after_loss")] == [True, False]
    assert [step.count for step in protocol.phase("after_loss")] == [1.0, 0.0]


def test_a_file_has_the_name_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(LOG)
    assert load_protocol(tmp_path / "mine.toml").protocol.name == "mine"
    assert find_protocol(str(tmp_path / "mine.toml")).settings == {"retry": 3, "retry_backoff": {}}


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml: no such file"):
        load_protocol(tmp_path / "none.toml")


def test_an_unknown_name_gets_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match="did you mean 'delta-rs'"):
        find_protocol("delta-rust")


@pytest.mark.parametrize("name", builtin_names())
def test_built_in_protocols_state_version_source_and_date(name: str) -> None:
    found = find_protocol(name)
    assert found.protocol.name == name
    assert found.document.version
    assert found.document.source
    assert found.date[:3] == "202"
    assert found.document.description


def change(old: str, new: str) -> str:
    assert LOG.count(old) >= 1
    return LOG.replace(old, new, 1)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (change('"put_if_absent"', '"put"'), "`commit.point` (line 3) should be 'put_if_absent', 'swap', 'insert' or 'ratify'"),
        (change("limit = 3", "limits = 3"), "retries.limits: line 19: unknown key; did you mean 'limit'?"),
        (change('object = "log"', 'objekt = "log"'), "load.0.objekt: line 7: unknown key; did you mean 'object'?"),
        (change('operation = "list"\nobject = "log"', 'operation = "list"'), "`load.0.object` (line 5) is missing"),
        (change('operation = "list"', 'operation = "request"'), "`load.0.operation` (line 6) contradicts commit.point"),
        (change('operation = "list"', 'operation = "write"'), "`load` (line 5) must contain a single request"),
        (change("limit = 3", "limit = 0"), "`after_loss` (line 9) has no effect with retries.limit = 0"),
        (change("per_version_behind = 1", "count = 0"), "`after_loss.1.count` (line 16) is 0 and no per_ key is set"),
        (change("per_version_behind = 1", "publishes = true"), "`after_loss.1.publishes` (line 16) has no effect unless"),
        (change("per_version_behind = 1", "with_next = true"), "`after_loss.1.with_next` (line 16) is set in the last step"),
        (
            change("per_version_behind = 1", "checks = true"),
            "`after_loss.1.checks` (line 16) is valid only in the steps of attempt",
        ),
        (
            change("per_version_behind = 1", 'attempts = "first"'),
            "`after_loss.1.attempts` (line 16) is valid only in the steps of attempt",
        ),
        (LOG + "[conflicts]\nrebases = false\n", "`retries.limit` (line 19) contradicts conflicts.rebases = false"),
        (
            LOG + "[conflicts.files]\ndelet = []\n",
            "`conflicts.files.delet` (line 21) is not one of operations; did you mean",
        ),
        (
            LOG + "[conflicts.table]\ndelete = ['delete']\n[conflicts.files]\ndelete = ['overwrite', 'delete']\n",
            "`conflicts.files.delete.1` (line 23) is listed twice; list delete for delete at one level only",
        ),
        (LOG + "[checkpoints]\nby = 'background'\n", "`checkpoints.by` (line 21) has no effect with checkpoints.every = 0"),
        ("operations = ['append']\n" + LOG, "operations.0: line 1: unknown operation; did you mean 'fast_append'?"),
    ],
)
def test_a_contradiction_is_refused_with_key_line_and_reason(text: str, reason: str) -> None:
    assert reason in refused(text)


def test_retries_that_never_see_another_version_are_refused() -> None:
    text = LOG.replace('operation = "list"\nobject = "log"\n\n[[after_loss]]\noperation = "read"', 'operation = "write"')
    assert "after_loss: line 9: no step shows the current version after a failed attempt" in refused(text)


def test_a_limit_of_unpublished_commits_needs_a_step_that_publishes() -> None:
    text = LOG.replace('"put_if_absent"', '"ratify"\nunpublished_limit = 10')
    assert "commit.unpublished_limit: line 4: lets the catalog reject all commits" in refused(text)
    published = text + '[[after_success]]\noperation = "write"\nobject = "log"\npublishes = true\n'
    assert parse_protocol(published, "my.toml", "my").protocol.unpublished_limit == 10


def test_an_attempt_that_checks_needs_a_version_to_check() -> None:
    step = '[[attempt]]\noperation = "read"\nobject = "metadata"\nchecks = true\n'
    assert "`attempt.0.checks` (line 23) needs discovers = true in this step" in refused(LOG + step)
    assert parse_protocol(LOG + step + "discovers = true\n", "my.toml", "my").protocol.phase("attempt")[0].checks


def test_names_and_sources_do_not_change_the_content() -> None:
    named = parse_protocol('name = "other"\nversion = "2"\n' + LOG, "other.toml", "other")
    assert describe(named) == describe(parse_protocol(LOG, "my.toml", "my"))
    assert describe(named) != describe(parse_protocol(change("limit = 3", "limit = 4"), "my.toml", "my"))


def test_lines_of_keys() -> None:
    assert line_of("retries.limit", LOG) == 19
    assert line_of("after_loss.1.operation", LOG) == 14
    assert line_of("checkpoints.every", LOG) is None
