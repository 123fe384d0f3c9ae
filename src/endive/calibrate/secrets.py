"""Credentials kept out of what is printed and written."""

from __future__ import annotations

import os
import re

_NAMES = re.compile(r"SECRET|TOKEN|PASSWORD|PASSWD|CREDENTIAL|ACCESS_KEY|ACCOUNT_KEY|SAS|PRIVATE|_URI$|_URL$", re.IGNORECASE)
_USERINFO = re.compile(r"(?<=://)[^/@\s]+@")
_SIGNED = re.compile(r"(?i)((?:x-amz-[a-z-]+|sig|signature|authorization|awsaccesskeyid)=)[^&\s\"']+")
_SHORTEST = 6


def without_secrets(text: str) -> str:
    """Return a text without the values of environment variables that hold credentials, user names in URLs, and signatures."""
    text = _SIGNED.sub(r"\1***", _USERINFO.sub("***@", text))
    for name, value in os.environ.items():
        if len(value) >= _SHORTEST and _NAMES.search(name) and value in text and not _is_plain_address(name, value):
            text = text.replace(value, "***")
    return text


def _is_plain_address(name: str, value: str) -> bool:
    """An address of a service is no secret, unless somebody's name and password stand in it."""
    return bool(re.search(r"_UR[IL]$|ENDPOINT", name)) and "@" not in value
