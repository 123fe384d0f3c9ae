"""Published numbers of the providers, for comparison with the profile files."""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Lognormal:
    median_ms: float
    sigma: float


@dataclass(frozen=True)
class BySize:
    base_ms: float
    per_mib_ms: float
    sigma: float


@dataclass(frozen=True)
class Published:
    cas: Lognormal
    failed_cas: Lognormal | None
    append: Lognormal | None
    failed_append: Lognormal | None
    read: Lognormal | BySize
    write: BySize
    floor_ms: float
    tail_append: bool = False
    object_writes_per_s: float | None = None


def _june(
    cas: tuple[float, float],
    failed_cas: tuple[float, float],
    append: tuple[float, float] | None,
    failed_append: tuple[float, float] | None,
    put: tuple[float, float, float],
    floor_ms: float,
    tail_append: bool = False,
) -> Published:
    return Published(
        cas=Lognormal(*cas),
        failed_cas=Lognormal(*failed_cas),
        append=Lognormal(*append) if append else None,
        failed_append=Lognormal(*failed_append) if failed_append else None,
        read=BySize(*put),
        write=BySize(*put),
        floor_ms=floor_ms,
        tail_append=tail_append,
    )


_JUNE = {
    "s3": _june((61, 0.14), (65, 0.38), None, None, (30, 20, 0.30), 43),
    "s3x": _june((22, 0.22), (21, 0.22), (21, 0.25), (23, 0.25), (10, 10, 0.30), 10),
    "azure": _june((93, 0.82), (75, 0.90), (87, 0.28), (2072, 0.68), (50, 25, 0.30), 51),
    "azurex": _june((64, 0.73), (82, 0.85), (70, 0.23), (2534, 0.65), (30, 15, 0.30), 40),
    "gcp": _june((170, 0.91), (4500, 1.0), None, None, (40, 17, 0.30), 118),
    "instant": _june((1, 0.1), (1, 0.1), (1, 0.1), (1, 0.1), (0.5, 0.1, 0.1), 1, tail_append=True),
}


def _december(name: str, read: tuple[float, float], write: tuple[float, float, float], floor_ms: float) -> Published:
    return replace(_JUNE[name], read=Lognormal(*read), write=BySize(*write), floor_ms=floor_ms)


def _january(name: str, cas: tuple[float, float], failed_cas: Lognormal | None, limit: float | None = None) -> Published:
    return replace(_DECEMBER[name], cas=Lognormal(*cas), failed_cas=failed_cas, object_writes_per_s=limit)


_DECEMBER = {
    "s3": _december("s3", (27, 0.62), (60, 20, 0.29), 10),
    "s3x": _december("s3x", (2.5, 0.57), (6.5, 10, 0.24), 1),
    "azure": _december("azure", (38, 0.66), (45, 25, 0.50), 20),
    "azurex": _december("azurex", (35, 0.08), (41, 15, 0.10), 20),
    "gcp": _december("gcp", (200, 0.30), (200, 17, 0.30), 80),
    "instant": _JUNE["instant"],
}


PUBLISHED: dict[str, dict[str, Published]] = {
    "2025-06": _JUNE,
    "2025-12": _DECEMBER,
    "2026-01": {
        "s3": _january("s3", (64, 0.14), _JUNE["s3"].failed_cas),
        "s3x": _january("s3x", (14, 0.25), _JUNE["s3x"].failed_cas),
        "azure": _january("azure", (103, 0.5), _JUNE["azure"].failed_cas),
        "azurex": _january("azurex", (63, 0.4), _JUNE["azurex"].failed_cas),
        "gcp": _january("gcp", (170, 0.5), None, limit=1.0),
        "instant": _JUNE["instant"],
    },
}

PROVIDERS = [(profile_set, name) for profile_set, providers in PUBLISHED.items() for name in providers]
