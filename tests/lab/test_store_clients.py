"""Real clients of the object store: boto3 and obstore, which delta-rs and Lance use as well."""

from __future__ import annotations

import http.client
import socket
from pathlib import Path
from urllib.parse import urlsplit

import obstore
import pytest
from botocore.exceptions import ClientError
from obstore.exceptions import AlreadyExistsError, PreconditionError

from endive.lab.open_lab import BUCKET, Lab, LabSettings, open_lab
from tests.lab.labs import PATIENCE_S, obstore_store, s3_client, shared


def status_of(error: pytest.ExceptionInfo[ClientError]) -> int:
    return int(error.value.response["ResponseMetadata"]["HTTPStatusCode"])


class TestBoto3:
    def test_reads_writes_lists_and_deletes(self, lab: Lab) -> None:
        s3 = s3_client(lab)
        names = [f"a/{n}" for n in range(5)] + ["b c/é+&<"]
        for name in names:
            s3.put_object(Bucket=BUCKET, Key=name, Body=name.encode())
        assert s3.get_object(Bucket=BUCKET, Key="b c/é+&<")["Body"].read() == "b c/é+&<".encode()
        pages = s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, PaginationConfig={"PageSize": 2})
        assert [each["Key"] for page in pages for each in page["Contents"]] == sorted(names)
        listed = s3.list_objects_v2(Bucket=BUCKET, Delimiter="/")
        assert [each["Prefix"] for each in listed["CommonPrefixes"]] == ["a/", "b c/"]
        gone = s3.delete_objects(Bucket=BUCKET, Delete={"Objects": [{"Key": name} for name in names[:2]]})
        assert len(gone["Deleted"]) == 2
        s3.delete_object(Bucket=BUCKET, Key="a/2")
        assert s3.list_objects_v2(Bucket=BUCKET)["KeyCount"] == 3

    def test_reads_ranges(self, lab: Lab) -> None:
        s3 = s3_client(lab)
        s3.put_object(Bucket=BUCKET, Key="a", Body=b"0123456789")
        ranges = {"bytes=2-4": b"234", "bytes=7-": b"789", "bytes=-2": b"89", "bytes=8-99": b"89"}
        for given, content in ranges.items():
            found = s3.get_object(Bucket=BUCKET, Key="a", Range=given)
            assert (found["Body"].read(), found["ResponseMetadata"]["HTTPStatusCode"]) == (content, 206)
        with pytest.raises(ClientError) as error:
            s3.get_object(Bucket=BUCKET, Key="a", Range="bytes=10-")
        assert status_of(error) == 416

    def test_uploads_parts(self, lab: Lab) -> None:
        s3 = s3_client(lab)
        upload = s3.create_multipart_upload(Bucket=BUCKET, Key="big")["UploadId"]
        parts = [
            {
                "PartNumber": n,
                "ETag": s3.upload_part(Bucket=BUCKET, Key="big", UploadId=upload, PartNumber=n, Body=b"x" * n)["ETag"],
            }
            for n in (1, 2)
        ]
        s3.complete_multipart_upload(Bucket=BUCKET, Key="big", UploadId=upload, MultipartUpload={"Parts": parts})
        assert s3.head_object(Bucket=BUCKET, Key="big")["ContentLength"] == 3

    def test_writes_on_conditions(self, lab: Lab) -> None:
        s3 = s3_client(lab)
        tag = s3.put_object(Bucket=BUCKET, Key="ref", Body=b"1", IfNoneMatch="*")["ETag"]
        for condition in ({"IfNoneMatch": "*"}, {"IfMatch": '"0"'}):
            with pytest.raises(ClientError) as error:
                s3.put_object(Bucket=BUCKET, Key="ref", Body=b"2", **condition)
            assert status_of(error) == 412
        s3.put_object(Bucket=BUCKET, Key="ref", Body=b"2", IfMatch=tag)
        assert s3.get_object(Bucket=BUCKET, Key="ref")["Body"].read() == b"2"

    def test_conditional_reads_return_only_changed_objects(self, lab: Lab) -> None:
        s3 = s3_client(lab)
        tag = s3.put_object(Bucket=BUCKET, Key="a", Body=b"1")["ETag"]
        with pytest.raises(ClientError) as error:
            s3.get_object(Bucket=BUCKET, Key="a", IfNoneMatch=tag)
        assert status_of(error) == 304

    def test_missing_objects_are_reported(self, lab: Lab) -> None:
        s3 = s3_client(lab)
        for call in (s3.get_object, s3.head_object):
            with pytest.raises(ClientError) as error:
                call(Bucket=BUCKET, Key="missing")
            assert status_of(error) == 404
        with pytest.raises(ClientError, match="NoSuchBucket"):
            s3.list_objects_v2(Bucket="elsewhere")


class TestObstore:
    def test_reads_writes_and_lists(self, lab: Lab) -> None:
        store = obstore_store(lab)
        obstore.put(store, "log/0", b"first")
        obstore.put(store, "log/1", b"x" * 6_000_000)
        assert bytes(obstore.get_range(store, "log/0", start=1, length=3)) == b"irs"
        assert [each["size"] for each in obstore.list(store, "log").collect()] == [5, 6_000_000]
        obstore.delete(store, ["log/0", "log/1"])
        assert obstore.list(store).collect() == []

    def test_creates_an_entry_of_a_log_once(self, lab: Lab) -> None:
        store = obstore_store(lab)
        obstore.put(store, "log/0", b"first", mode="create")
        with pytest.raises(AlreadyExistsError):
            obstore.put(store, "log/0", b"second", mode="create")

    def test_swaps_a_ref(self, lab: Lab) -> None:
        store = obstore_store(lab)
        tag = obstore.put(store, "ref", b"1")["e_tag"]
        changed = obstore.put(store, "ref", b"2", mode={"e_tag": tag})
        with pytest.raises(PreconditionError):
            obstore.put(store, "ref", b"3", mode={"e_tag": tag})
        assert obstore.head(store, "ref")["e_tag"] == changed["e_tag"]

    def test_copies(self, lab: Lab) -> None:
        store = obstore_store(lab)
        obstore.put(store, "a", b"1")
        obstore.copy(store, "a", "b")
        assert bytes(obstore.get(store, "b").bytes()) == b"1"


def raw_request(lab: Lab, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None) -> tuple[int, bytes]:
    """Send a request with the access key of the lab, whatever a client library thinks of it."""
    address = urlsplit(lab.store_url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=PATIENCE_S)
    try:
        given = {"Authorization": f"AWS4-HMAC-SHA256 Credential={shared(lab).access_key}/x, Signature=y", **(headers or {})}
        connection.request(method, path, body, given)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


class TestSecurity:
    def test_another_access_key_is_rejected(self, lab: Lab) -> None:
        with pytest.raises(ClientError) as error:
            s3_client(lab, access_key="AKIAOTHER").list_objects_v2(Bucket=BUCKET)
        assert status_of(error) == 403
        assert raw_request(lab, "GET", "/lab/a", headers={"Authorization": "x"})[0] == 403

    def test_each_lab_has_its_own_access_key(self, lab: Lab) -> None:
        with open_lab(LabSettings()) as other:
            assert shared(other).access_key != shared(lab).access_key
            assert shared(other).token != shared(lab).token
            with pytest.raises(ClientError):
                s3_client(other, access_key=shared(lab).access_key).list_objects_v2(Bucket=BUCKET)

    @pytest.mark.parametrize(
        "path",
        [
            *("/lab/../x", "/lab/a/../../../x", "/lab/%2e%2e/x", "/lab/..%2fx", "/lab//etc/passwd", "/lab/a%00b", "//etc/passwd"),
            *("/lab/" + "x" * 4096, "/lab/" + "y/" * 2048, "/lab/%5c..%5cx", "/../lab2/x"),
        ],
    )
    def test_names_that_could_lead_elsewhere_are_rejected(self, path: str, tmp_path: Path) -> None:
        with open_lab(LabSettings(directory=tmp_path / "objects")) as lab:
            assert raw_request(lab, "PUT", path, b"content")[0] in (400, 404)
        assert [path for path in tmp_path.rglob("*") if path.is_file()] == []

    def test_a_large_request_is_rejected_before_it_is_read(self) -> None:
        with open_lab(LabSettings(request_bytes=1000)) as lab:
            assert raw_request(lab, "PUT", "/lab/a", bytes(1001))[0] == 413
            assert raw_request(lab, "PUT", "/lab/a", bytes(1000))[0] == 200

    def test_memory_is_bounded(self) -> None:
        with open_lab(LabSettings(memory_bytes=1000)) as lab:
            assert raw_request(lab, "PUT", "/lab/a", bytes(900))[0] == 200
            status, body = raw_request(lab, "PUT", "/lab/b", bytes(200))
            assert (status, b"--memory" in body) == (507, True)

    def test_memory_of_requests_in_flight_is_bounded(self) -> None:
        with open_lab(LabSettings(memory_bytes=1000)) as lab:
            head = f"Authorization: AWS4-HMAC-SHA256 Credential={shared(lab).access_key}/x\r\nContent-Length: 800\r\n\r\n"
            with socket.create_connection(("127.0.0.1", urlsplit(lab.store_url).port or 0), timeout=PATIENCE_S) as waiting:
                waiting.sendall(f"PUT /lab/a HTTP/1.1\r\nHost: x\r\n{head}".encode() + bytes(799))
                statuses = [raw_request(lab, "PUT", "/lab/b", bytes(300))[0] for _ in range(50)]
                assert 503 in statuses
                waiting.sendall(b"x")
                assert waiting.recv(100).startswith(b"HTTP/1.1 200")
            assert raw_request(lab, "PUT", "/lab/b", bytes(150))[0] == 200

    def test_pages_of_a_listing_have_at_most_the_asked_number(self, lab: Lab) -> None:
        lab.store.write(BUCKET, "a", b"")
        status, body = raw_request(lab, "GET", "/lab?list-type=2&max-keys=0")
        assert (status, b"<IsTruncated>false" in body, b"<Contents>" in body) == (200, True, False)
        status, body = raw_request(lab, "GET", f"/lab?list-type=2&max-keys={'9' * 5000}")
        assert (status, b"<Key>a</Key>" in body) == (200, True)

    @pytest.mark.parametrize("body", [b"", b"<a", b'<!DOCTYPE x [<!ENTITY a "b">]><Delete><Key>&a;</Key></Delete>', b"<Delete/>"])
    def test_malformed_xml_is_rejected(self, lab: Lab, body: bytes) -> None:
        assert raw_request(lab, "POST", "/lab?delete", body)[0] == 400

    def test_broken_chunks_are_rejected(self, lab: Lab) -> None:
        chunked = {"x-amz-content-sha256": "STREAMING-UNSIGNED-PAYLOAD-TRAILER"}
        for body in (b"zz\r\nabc\r\n0\r\n\r\n", b"5\r\nab", b"", b"-1\r\n"):
            assert raw_request(lab, "PUT", "/lab/a", body, chunked)[0] == 400
        assert raw_request(lab, "PUT", "/lab/a", b"3\r\nabc\r\n0\r\nx-amz-checksum-crc32:AAAA\r\n\r\n", chunked)[0] == 200
        assert lab.store.read("lab", "a") == b"abc"

    def test_the_servers_listen_on_loopback_only(self, lab: Lab) -> None:
        assert urlsplit(lab.store_url).hostname == urlsplit(lab.catalog_url).hostname == "127.0.0.1"
