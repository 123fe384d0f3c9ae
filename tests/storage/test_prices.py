"""Tables of prices of the user's own: what they replace, and what is wrong with them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from endive.storage.prices import PriceError, list_prices, load_prices

STORE = "get_per_1000 = 1\nput_per_1000 = 2\nlist_per_1000 = 3\ndelete_per_1000 = 4\n"


def test_a_file_of_prices_replaces_list_prices(tmp_path: Path) -> None:
    file = tmp_path / "prices.toml"
    file.write_text(f"[stores.s3]\n{STORE}[stores.mine]\n{STORE}[service]\nrequest_per_1000 = 0.001\n")
    prices = load_prices(file)
    mine = prices.find("mine-0a1b2c")
    assert mine is not None
    assert (mine.get, mine.put, mine.list, mine.delete) == (1.0, 2.0, 3.0, 4.0)
    assert prices.find("s3") == mine
    assert prices.find("s3x") == list_prices().find("s3x")
    assert prices.service_request == 0.001


def test_each_list_price_has_a_source_and_a_date() -> None:
    stores = list_prices().stores
    assert set(stores) == {"s3", "s3x", "gcp", "azure"}
    for name, store in stores.items():
        assert store.source.startswith("https://"), name
        assert store.region, name
        assert re.fullmatch(r"20\d\d-\d\d(-\d\d)?", store.date), name


def test_the_page_about_cost_has_the_prices_of_the_table() -> None:
    page = (Path(__file__).parents[2] / "docs" / "explanation" / "cost.md").read_text()
    for name, store in list_prices().stores.items():
        row = next(line for line in page.splitlines() if line.startswith(f"| `{name}`"))
        cells = [cell.strip() for cell in row.split("|")]
        assert (float(cells[2]), float(cells[3])) == (store.get, store.put), name
        assert (store.list, store.delete) == (store.put, 0.0), name
        assert store.region == cells[4], name
        assert store.date in cells[5], name


def test_another_currency_stands_alone(tmp_path: Path) -> None:
    file = tmp_path / "prices.toml"
    file.write_text(f'currency = "EUR"\n[stores.s3]\n{STORE}')
    prices = load_prices(file)
    assert prices.currency == "EUR"
    assert prices.find("s3x") is None


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("[stores.s3]\nget_per_1000 = 1\n", "stores.s3: `put_per_1000` is missing"),
        (f"[stores.s3]\n{STORE}post_per_1000 = 1\n", "stores.s3: post_per_1000: unknown key"),
        (f"[stores.s3]\n{STORE.replace('= 1', '= -1')}", "get_per_1000 is -1, but must be a number from 0"),
        (f"[stores.s3]\n{STORE.replace('= 1', '= nan')}", "get_per_1000 is nan"),
        ("[stores.s3]\n" + STORE.replace("= 1", "= 1" + "0" * 400), "get_per_1000 is 1000000000"),
        ("[stores]\ns3 = " + "9" * 4_000, "... (4,000 characters), but must be a table"),
        ("stores = 3\n", "stores is 3, but must be a table"),
        ("[shops]\n", "shops: unknown key; allowed: currency, stores, service"),
        ("currency = 3\n", "currency is 3"),
        ("[service]\nrequest_per_1000 = true\n", "request_per_1000 is True"),
        ("[stores", "the price table cannot be read"),
    ],
)
def test_invalid_prices_are_reported(tmp_path: Path, text: str, answer: str) -> None:
    file = tmp_path / "prices.toml"
    file.write_text(text)
    with pytest.raises(PriceError) as caught:
        load_prices(file)
    assert str(file) in str(caught.value)
    assert answer in str(caught.value)


def test_a_missing_file_of_prices_is_reported(tmp_path: Path) -> None:
    with pytest.raises(PriceError, match="no such file"):
        load_prices(tmp_path / "none.toml")
