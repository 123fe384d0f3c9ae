"""Hooks of MkDocs: pages and examples that lie outside of ``docs/``, and links to them.

On disk, pages link to ``../CONTRIBUTING.md`` and ``../../examples/mixed.toml``, so that links work in a checkout. The site has
these files at its top, and the links are rewritten.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
OUTSIDE = ("CHANGELOG.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "LICENSE", "SECURITY.md")
"""Files at the top of the repository that the site has, too."""
_LINK = re.compile(r"\]\(((?:\.\./)*)([^)\s:#]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the files at the top of the repository, and the examples."""
    examples = sorted((ROOT / "examples").rglob("*.toml"))
    for path in [ROOT / name for name in OUTSIDE] + examples:
        files.append(File.generated(config, path.relative_to(ROOT).as_posix(), content=path.read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Let links that leave ``docs/``, or lead into it from outside, lead to the same files on the site."""
    uri = page.file.src_uri
    if uri in OUTSIDE:
        return _LINK.sub(_enter, markdown)
    depth = uri.count("/")
    return _LINK.sub(lambda link: _leave(link, depth), markdown)


def _leave(link: re.Match[str], depth: int) -> str:
    up, path, anchor = link[1], link[2], link[3] or ""
    if up.count("../") != depth + 1:
        return link[0]
    target = "" if path == "README.md" else path
    return f"]({'../' * depth}{target or 'README.md'}{anchor})"


def _enter(link: re.Match[str]) -> str:
    return f"]({link[1]}{link[2].removeprefix('docs/')}{link[3] or ''})"
