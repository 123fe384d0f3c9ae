"""Fairness in words: said where it matters, and only there."""

from __future__ import annotations

from endive.report.answer import describe_fairness


def row(jain: float | None, without: float | None, streak: float | None, name: str = "") -> dict[str, object]:
    return {"jain_index": jain, "writers_without_commit": without, "longest_losing_streak": streak, "name": name}


def data(*rows: dict[str, object]) -> list[str]:
    return list(describe_fairness("ingest", list(rows), lambda each: f" with {each['name']}" if len(rows) > 1 else ""))


def test_even_or_missing_shares_are_not_reported() -> None:
    assert data(row(None, None, None)) == data(row(0.97, 0.0, 3.0)) == data() == []


def test_the_least_even_configuration_is_reported() -> None:
    assert data(row(0.612, 0.0, 7.0)) == [
        "Commits of class ingest are distributed unevenly among its writers (Jain's index 0.612; "
        "up to 7 consecutive transactions of one writer do not commit)."
    ]
    assert data(row(0.95, 0.0, 1.0, "A"), row(0.5, 0.25, 12.0, "B")) == [
        "Commits of class ingest are distributed unevenly among its writers with B (Jain's index 0.5; 25% of writers never commit; "
        "up to 12 consecutive transactions of one writer do not commit)."
    ]
    assert data(row(0.5, 0.25, 1.33)) == [
        "Commits of class ingest are distributed unevenly among its writers (Jain's index 0.5; 25% of writers never commit)."
    ]
