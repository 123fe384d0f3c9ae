"""Read prices of requests to object stores and catalog services from a TOML file.

    currency = "USD"
    [stores.NAME]                      # provider: s3, s3x, gcp, or the name of a custom latency profile
    get_per_1000 = 0.0004              # likewise put_, list_ and delete_per_1000
    region = "..."  source = "..."  date = "2025-06"
    [service]                          # a catalog of type "service"
    request_per_1000 = 0.001
    source = "..."  date = "2025-06"

The package contains list prices. Prices in a user's file replace them. Costs do not include requests without a price.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from endive.input_files import UnreadableError, in_short, parse_toml, read_toml

_REQUESTS = ("get", "put", "list", "delete")
_ABOUT = ("region", "source", "date")
_MOST = 1e6
"""Maximum price of 1,000 requests in a price file."""


class PriceError(ValueError):
    """Raised if a price file is invalid. The message names the file and the key."""


@dataclass(frozen=True)
class StorePrices:
    """Prices of 1,000 requests to an object store, with their source."""

    get: float
    put: float
    list: float
    delete: float
    region: str = ""
    source: str = ""
    date: str = ""


@dataclass(frozen=True)
class Prices:
    """Prices of requests to object stores and to a catalog service.

    ``service_request`` is the price of 1,000 requests to a catalog service, or None if there is no price.
    """

    currency: str
    stores: Mapping[str, StorePrices] = field(default_factory=dict)
    service_request: float | None = None

    def find(self, provider: str) -> StorePrices | None:
        """Return the prices of a storage provider, or None if there are none.

        The name of a custom profile can end with the digest of the profile.
        """
        return self.stores.get(provider) or self.stores.get(provider.rpartition("-")[0])


@cache
def list_prices() -> Prices:
    """Return the list prices that are part of the package."""
    text = resources.files("endive.storage").joinpath("price_data", "list_prices.toml").read_text()
    return _parse_prices(parse_toml(text), "list_prices.toml", Prices("USD"))


def load_prices(path: Path | None) -> Prices:
    """Return the list prices, with those in a price file replaced.

    Raises:
        PriceError: If the file is invalid. The message names the file and the key.
    """
    if path is None:
        return list_prices()
    try:
        tree = read_toml(path)
    except UnreadableError as error:
        raise PriceError(f"{path}: the price table cannot be read: {error}") from None
    return _parse_prices(tree, str(path), list_prices())


def _parse_prices(tree: Mapping[str, Any], where: str, base: Prices) -> Prices:
    _check_keys(tree, ("currency", "stores", "service"), where)
    currency = tree.get("currency", base.currency)
    if not isinstance(currency, str) or not 1 <= len(currency) <= 10:
        raise PriceError(f"{where}: currency is {in_short(repr(currency))}, but must be text of 1 to 10 characters, such as USD")
    if currency != base.currency and base.stores:
        base = Prices(currency)  # the list prices are in a different currency
    stores = _table(tree, "stores", where)
    service = _table(tree, "service", where)
    _check_keys(service, ("request_per_1000", *_ABOUT), f"{where}: service")
    return Prices(
        currency,
        {**base.stores, **{name: _store(_table(stores, name, f"{where}: stores"), f"{where}: stores.{name}") for name in stores}},
        _price(service, "request_per_1000", f"{where}: service") if "request_per_1000" in service else base.service_request,
    )


def _store(table: Mapping[str, Any], where: str) -> StorePrices:
    _check_keys(table, (*(f"{name}_per_1000" for name in _REQUESTS), *_ABOUT), where)
    get, put, list_, delete = (_price(table, f"{name}_per_1000", where) for name in _REQUESTS)
    region, source, date = (str(table.get(name, "")) for name in _ABOUT)
    return StorePrices(get, put, list_, delete, region, source, date)


def _table(tree: Mapping[str, Any], key: str, where: str) -> Mapping[str, Any]:
    found = tree.get(key, {})
    if not isinstance(found, Mapping):
        raise PriceError(f"{where}: {key} is {in_short(repr(found))}, but must be a table")
    return found


def _check_keys(table: Mapping[str, Any], allowed: tuple[str, ...], where: str) -> None:
    for key in table:
        if key not in allowed:
            raise PriceError(f"{where}: {in_short(key)}: unknown key; allowed: {', '.join(allowed)}")


def _price(table: Mapping[str, Any], key: str, where: str) -> float:
    if key not in table:
        raise PriceError(f"{where}: `{key}` is missing; set it to 0 if requests are free")
    value = table[key]
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value <= _MOST:
        raise PriceError(f"{where}: {key} is {in_short(repr(value))}, but must be a number from 0 to {_MOST:,.0f}")
    return float(value)
