"""Check the language of source, documentation and assets: ``python docs/prose.py [PATH ...]``.

Reports words and patterns that the project does not use, docstrings that do not start with an imperative verb (ruff's D401) and
misspellings (codespell). Without a path the whole tree is checked, and counts by directory are printed; with one, each finding.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PATHS = ("src", "docs", "examples", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "Makefile")
SUFFIXES = (".py", ".md", ".toml", ".html", ".js", ".css", ".jinja", ".txt")
IGNORED = ("docs/prose.py",)
"""Files that contain the forbidden words because they list them."""

WORDS: dict[str, str] = {
    r"(?:is|are|was|were|be|been) told|told (?:apart|from|by|of)|\btold\b": "is reported, distinguished",
    r"nobody|somebody|whoever|thereof|someone's|one's own": "name the actor",
    r"so many|so much|as many as there are": "the number",
    r"carries|carried by (?:it|the table)|beyond what (?:it|they) carr\w+": "sustains, overloaded",
    r"half within|9[59] ?% within": "p50, p95, p99",
    r"retries each|they come\b|each every|work takes": "retries per transaction, arrivals, interval, job duration",
    r"gives? up|gave up|giving up|given up": "aborts",
    r"(?:that|which|all|who) entered": "started committing",
    r"lost answers?|answers? of (?:a|the) (?:service|server|catalog|store)s?": "response",
    r"(?:service|server|catalog|store)s? answers?": "responds",
    r"hand-overs?|handed over": "handoff",
    r"moments? of effect": "linearization point",
    r"parts? of (?:your|one's|the user's|a user's) own": "plug-ins, custom components",
    r"profiles? of your own|sets? of profiles": "custom latency profile",
    r"beyond doubt": "statistically significant (95%)",
    r"would help most\b(?!\?)|every lever|levers?|pulled": "what would help most?, change",
    r"who beats whom|what committing costs|where the time (?:goes|went)": "commit timeline, commit time breakdown",
    r"(?:the )?numbers behind it|repeat it\b|what this rests on": "data, reproduce, assumptions",
    r"half a (?:minute|second|character|hour)": "30 s, unpaired surrogate",
    r"\bsome \d[\d,.]*": "about N",
    r"everything commits": "ideal: every transaction commits",
    r"is no (?:text|file|number|share|key|configuration|study|run|name|table|time|directory|list|json|toml)\b": "is not a",
    r"of no concern|no concern of|as it is is|belongs? nowhere|in one's|on the side\b": "plain words",
    r"beside (?:it|them)self|by and by|for ever|whatever it": "plain words",
    r"(?:says|say|said) so\b|is meant\b|are meant\b": "reports, is intended",
    r"looks? whether|see whether|sees? whose|look(?:s|ed)? at (?:it|them) hard": "check whether",
}
"""Forbidden patterns, each with what to write instead. Matched at word boundaries, in any case."""
PERCENT = re.compile(r"(?:\d|\}) %(?=$|[\s.,;:)\"'<|?!])")
QUESTION_WORD = re.compile(r"(?:What|Whether|How|Who|Whose|Where|Which)\b[^?]*$", re.DOTALL)
NAMES = re.compile(
    r"_*(?:told|tell|tells|see_\w+|look|look_\w+|looked|seen|whose\w*|helping|help_most|pulled|standing|patient|watched|placed|"
    r"unfitness|narrowed|interpreted|measure_here|apart|of|described|leaf)",
    re.IGNORECASE,
)
_COMPILED = {re.compile(rf"(?<![\w-])(?:{pattern})(?![\w-])", re.IGNORECASE): advice for pattern, advice in WORDS.items()}


@dataclass(frozen=True)
class Finding:
    """A place where the language is not the project's."""

    path: Path
    line: int
    text: str
    advice: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text!r}: {self.advice}"


def main(arguments: list[str] | None = None) -> int:
    """Check the given paths, print the findings and return the exit code."""
    parser = argparse.ArgumentParser(
        description="Check the language of source, documentation and assets.",
        epilog="Example: python docs/prose.py src/endive/cli README.md",
    )
    parser.add_argument("paths", nargs="*", metavar="PATH", help="file or directory; default: the whole tree, as counts")
    parser.add_argument("--list", action="store_true", help="print each finding, also without a path")
    given = parser.parse_args(arguments)
    targets = [Path(each).resolve() for each in given.paths or [ROOT / name for name in PATHS]]
    findings = [finding for target in targets for path in files_below(target) for finding in check_file(path)]
    findings = list(dict.fromkeys([*findings, *run_ruff(targets), *run_codespell(targets)]))
    if given.paths or given.list:
        print(*findings, sep="\n", end="\n" if findings else "")
    else:
        counts = Counter(directory_of(each.path) for each in findings)
        print(*(f"{count:6}  {name}" for name, count in sorted(counts.items())), sep="\n")
    print(f"{len(findings)} findings")
    return 1 if findings else 0


def directory_of(path: Path) -> str:
    """Return the directory under which findings of a file are counted."""
    parts = path.parts
    return "/".join(parts[:3] if parts[0] == "src" else parts[:2])


def files_below(target: Path) -> Iterator[Path]:
    """Yield the text files at or below a path, relative to the root of the project."""
    for path in [target] if target.is_file() else sorted(target.rglob("*")):
        relative = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
        if path.is_file() and (path.suffix in SUFFIXES or path.name == "Makefile") and str(relative) not in IGNORED:
            yield relative


def check_file(path: Path) -> Iterator[Finding]:
    """Yield the findings of a file: of strings, comments and names in Python, of every line elsewhere."""
    text = (ROOT / path).read_text(encoding="utf-8")
    if path.suffix != ".py":
        for number, line in enumerate(text.splitlines(), 1):
            yield from check_text(path, number, line)
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield from check_text(path, token.start[0], token.string)
    tree = ast.parse(text)
    for node in ast.walk(tree):
        yield from _check_node(path, node)


def _check_node(path: Path, node: ast.AST) -> Iterator[Finding]:
    if isinstance(node, ast.JoinedStr):
        written = "".join(part.value if isinstance(part, ast.Constant) else "}" for part in node.values)  # type: ignore[misc]
        yield from (each for each in check_text(path, node.lineno, written) if "}" in each.text)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        for offset, line in enumerate(node.value.splitlines()):
            yield from check_text(path, node.lineno + offset, line)
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        first, *_ = node.value.value.split("\n\n")
        if QUESTION_WORD.match(first):
            yield Finding(path, node.lineno, first, "describe it by a noun phrase or an imperative verb")
    for name in _names_of(node):
        if NAMES.fullmatch(name):
            yield Finding(path, getattr(node, "lineno", 1), name, "name functions by verbs with their object, values by nouns")


def _names_of(node: ast.AST) -> Iterator[str]:
    """Yield the names that a node of a syntax tree defines."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id


def check_text(path: Path, line: int, text: str) -> Iterator[Finding]:
    """Yield the forbidden words and patterns of a line."""
    for pattern, advice in _COMPILED.items():
        for match in pattern.finditer(text):
            yield Finding(path, line, match[0], advice)
    for match in PERCENT.finditer(text):
        yield Finding(path, line, match[0], "no space before %")


def run_ruff(targets: list[Path]) -> Iterator[Finding]:
    """Yield the docstrings that do not start with an imperative verb."""
    python = [str(each) for each in targets if each.is_dir() or each.suffix == ".py"]
    if not python:
        return
    command = [sys.executable, "-m", "ruff", "check", "--select", "D401", "--output-format", "concise", "--quiet", *python]
    yield from _findings(command, r"^(?P<path>[^:\n]+):(?P<line>\d+):\d+: D401 (?P<text>.*)", "start with an imperative verb")


def run_codespell(targets: list[Path]) -> Iterator[Finding]:
    """Yield misspelled words."""
    command = [sys.executable, "-m", "codespell_lib", "--ignore-words-list", "simpy", *map(str, targets)]
    yield from _findings(command, r"^(?P<path>[^:\n]+):(?P<line>\d+): (?P<text>.*)", "spelling")


def _findings(command: list[str], pattern: str, advice: str) -> Iterator[Finding]:
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    if "No module named" in done.stderr:
        print(f"not checked ({advice}): {done.stderr.strip()}", file=sys.stderr)
    for match in re.finditer(pattern, done.stdout, re.MULTILINE):
        path = Path(match["path"])
        yield Finding(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path, int(match["line"]), match["text"], advice)


if __name__ == "__main__":
    sys.exit(main())
