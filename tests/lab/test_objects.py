"""Objects of the store, in memory and in a directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from endive.lab.objects import Condition, ObjectStore, StoreError


@pytest.fixture(params=["memory", "directory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    made = ObjectStore(tmp_path / "objects" if request.param == "directory" else None)
    made.create_bucket("lab")
    return made


def code_of(error: pytest.ExceptionInfo[StoreError]) -> str:
    return error.value.code


def test_an_object_is_read_as_it_was_written(store: ObjectStore) -> None:
    store.write("lab", "a/b", b"content")
    assert store.read("lab", "a/b") == b"content"
    assert store.read("lab", "a/b", 2, 5) == b"nte"
    assert store.head("lab", "a/b").size == 7


def test_versions_count_the_writes_of_a_name(store: ObjectStore) -> None:
    assert [store.write("lab", "a", bytes([n])).version for n in range(3)] == [1, 2, 3]
    store.delete("lab", "a")
    assert store.write("lab", "a", b"").version == 4


def test_an_object_is_created_once(store: ObjectStore) -> None:
    absent = Condition(if_none_match="*")
    store.write("lab", "log/1", b"first", absent)
    with pytest.raises(StoreError) as error:
        store.write("lab", "log/1", b"second", absent)
    assert (error.value.status, code_of(error)) == (412, "PreconditionFailed")
    assert store.read("lab", "log/1") == b"first"


def test_a_swap_needs_the_current_etag(store: ObjectStore) -> None:
    first = store.write("lab", "ref", b"1")
    store.write("lab", "ref", b"2", Condition(if_match=f'"{first.etag}"'))
    with pytest.raises(StoreError) as error:
        store.write("lab", "ref", b"3", Condition(if_match=first.etag))
    assert code_of(error) == "PreconditionFailed"
    with pytest.raises(StoreError) as error:
        store.write("lab", "other", b"3", Condition(if_match=first.etag))
    assert code_of(error) == "NoSuchKey"


def test_listings_are_ordered_grouped_and_paged(store: ObjectStore) -> None:
    for name in ("b/2", "a", "b/1", "c/d/e", "c.x"):
        store.write("lab", name, b"")
    page = store.list("lab", delimiter="/", most=3)
    assert ([name for name, _ in page.objects], page.prefixes, page.next_after) == (["a", "c.x"], ("b/",), "c.x")
    rest = store.list("lab", delimiter="/", after="c.x")
    assert (rest.objects, rest.prefixes, rest.next_after) == ((), ("c/",), None)
    after_group = store.list("lab", delimiter="/", after="b/")
    assert ([name for name, _ in after_group.objects], after_group.prefixes) == (["c.x"], ("c/",))
    assert [name for name, _ in store.list("lab", "b/").objects] == ["b/1", "b/2"]


def test_a_multipart_upload_appears_when_it_is_complete(store: ObjectStore) -> None:
    upload = store.start_upload("lab", "big")
    store.upload_part(upload, "lab", "big", 2, b"world")
    store.upload_part(upload, "lab", "big", 1, b"hello ")
    assert store.find("lab", "big") is None
    assert store.complete_upload(upload, "lab", "big", [1, 2]).etag.endswith("-2")
    assert store.read("lab", "big") == b"hello world"
    with pytest.raises(StoreError, match="does not exist"):
        store.abort_upload(upload, "lab", "big")


def test_an_aborted_upload_frees_its_memory() -> None:
    store = ObjectStore(most_bytes=100)
    store.create_bucket("lab")
    upload = store.start_upload("lab", "big")
    store.upload_part(upload, "lab", "big", 1, bytes(90))
    with pytest.raises(StoreError) as error:
        store.write("lab", "other", bytes(20))
    assert (error.value.status, code_of(error)) == (507, "InsufficientStorage")
    store.abort_upload(upload, "lab", "big")
    store.write("lab", "other", bytes(100))
    store.write("lab", "other", bytes(80))
    assert store.used_bytes == 80
    store.delete("lab", "other")
    assert store.used_bytes == 0


@pytest.mark.parametrize(
    "key", ["../x", "a/../../x", "/etc/passwd", "a//b", "a/./b", "nul\0", "line\n", "back\\slash", "x" * 256, "y/" * 600, "é" * 600]
)
def test_names_that_could_lead_elsewhere_are_rejected(store: ObjectStore, key: str) -> None:
    for act in (lambda: store.write("lab", key, b""), lambda: store.delete("lab", key), lambda: store.start_upload("lab", key)):
        with pytest.raises(StoreError) as error:
            act()
        assert error.value.status == 400


@pytest.mark.parametrize("name", ["..", ".", "a", "a/b", "A" * 5, "a..b", "-ab", "x" * 64])
def test_bucket_names_are_checked(store: ObjectStore, name: str) -> None:
    with pytest.raises(StoreError) as error:
        store.create_bucket(name)
    assert code_of(error) == "InvalidBucketName"


class TestDirectory:
    def test_objects_are_files_and_found_again(self, tmp_path: Path) -> None:
        store = ObjectStore(tmp_path)
        store.create_bucket("lab")
        store.write("lab", "a/b", b"content")
        assert (tmp_path / "lab" / "a" / "b").read_bytes() == b"content"
        again = ObjectStore(tmp_path)
        assert [name for name, _ in again.list("lab").objects] == ["a/b"]
        assert again.read("lab", "a/b") == b"content"
        again.delete("lab", "a/b")
        assert not (tmp_path / "lab" / "a" / "b").exists()

    def test_a_link_does_not_lead_outside(self, tmp_path: Path) -> None:
        outside = tmp_path / "outside"
        outside.mkdir()
        (outside / "secret").write_bytes(b"secret")
        root = tmp_path / "root"
        (root / "lab").mkdir(parents=True)
        (root / "lab" / "link").symlink_to(outside)
        (root / "lab" / "file").symlink_to(outside / "secret")
        store = ObjectStore(root)
        assert store.list("lab").objects == ()
        for key in ("link/new", "file"):
            with pytest.raises(StoreError, match="outside"):
                store.write("lab", key, b"changed")
        assert sorted(path.name for path in outside.iterdir()) == ["secret"]
        assert (outside / "secret").read_bytes() == b"secret"

    def test_a_folder_and_an_object_cannot_share_a_name(self, tmp_path: Path) -> None:
        store = ObjectStore(tmp_path)
        store.create_bucket("lab")
        store.write("lab", "a/b", b"")
        for key in ("a", "a/b/c"):
            with pytest.raises(StoreError) as error:
                store.write("lab", key, b"")
            assert error.value.status == 409
