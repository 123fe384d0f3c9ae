"""Consistency of the catalog kinds with the catalogs, the configuration and the latency profiles."""

from __future__ import annotations

import inspect

import pytest

from endive.catalog.kinds import CATALOG_KINDS, CATALOG_SETTINGS, CatalogKind
from endive.config.schema import CatalogSection
from endive.storage import StorageProfile


@pytest.mark.parametrize("kind", CATALOG_KINDS.values(), ids=lambda kind: kind.name)
def test_settings_are_keys_of_the_configuration_and_arguments_of_the_catalog(kind: CatalogKind) -> None:
    assert set(kind.settings) <= set(CatalogSection.model_fields)
    assert set(kind.settings.values()) <= set(inspect.signature(kind.catalog).parameters)
    assert kind.stored == ("storage" in inspect.signature(kind.catalog).parameters)


@pytest.mark.parametrize("kind", CATALOG_KINDS.values(), ids=lambda kind: kind.name)
def test_needs_are_accesses_of_a_profile(kind: CatalogKind) -> None:
    assert {access for accesses in kind.needs for access in accesses} <= set(StorageProfile.__dataclass_fields__)
    assert all(message.count("{}") == 1 for message in kind.needs.values())


def test_keys_that_some_kinds_have() -> None:
    assert {"latency_ms", "size_bytes", "compaction_threshold"} <= CATALOG_SETTINGS
