"""A client of a table format that does not exist: a log of entries, each created once, with a protocol that tests know.

load:          LIST log, GET the last entry
attempt:       LIST log, GET each entry that came between (and once GET the checkpoint if there is any)
commit:        PUT entry (If-None-Match: *)
after_success: PUT hint
It gives up after so many retries as its argument says. With a second argument, it does not look for other entries before its
first attempt.
"""

from __future__ import annotations

import http.client
import os
import re
import sys
from urllib.parse import urlsplit

ADDRESS = urlsplit(os.environ["AWS_ENDPOINT_URL"])
CONNECTION = http.client.HTTPConnection(ADDRESS.hostname or "", ADDRESS.port, timeout=30)
SIGNED = {"Authorization": f"AWS4-HMAC-SHA256 Credential={os.environ['AWS_ACCESS_KEY_ID']}/x, Signature=y"}


def send(method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, str]:
    CONNECTION.request(method, path, body, {**SIGNED, **{name.replace("_", "-"): value for name, value in headers.items()}})
    answer = CONNECTION.getresponse()
    return answer.status, answer.read().decode()


def latest() -> int:
    _, text = send("GET", "/lab?list-type=2&prefix=t/_log/")
    return max((int(number) for number in re.findall(r"_log/(\d+)\.json", text)), default=-1)


def main(retries: int, is_stale: bool) -> None:
    version = latest()
    send("GET", f"/lab/t/_log/{version:08d}.json")
    send("PUT", f"/lab/t/data/{os.getpid()}.parquet", b"x" * 100)
    for attempt in range(retries + 1):
        now = version if is_stale and attempt == 0 else latest()
        if now > version:
            send("GET", "/lab/t/_log/_last_checkpoint")
        for between in range(version + 1, now + 1):
            send("GET", f"/lab/t/_log/{between:08d}.json")
        version = now
        status, _ = send("PUT", f"/lab/t/_log/{version + 1:08d}.json", b"entry", If_None_Match="*")
        if status == 200:
            send("PUT", "/lab/t/hint", b"1")
            return
    sys.exit("lost every attempt")


main(int(sys.argv[1]), len(sys.argv) > 2)
