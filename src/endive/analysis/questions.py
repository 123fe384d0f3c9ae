"""What a study is about: a metric, of all transactions or of a class, as ``[sweep] question`` names it."""

from __future__ import annotations

from collections.abc import Collection

from endive.analysis.run_metrics import RATES
from endive.analysis.thresholds import Subject, parse_subject
from endive.config import ConfigError, Problem
from endive.config.errors import nearest
from endive.workload.classes import ALL_CLASSES


def parse_question(text: str, classes: Collection[str], source: str) -> Subject:
    """Return what a question such as ``success(compaction)`` asks for.

    Raises ConfigError, which names ``source``, if there is no such metric, or no such class among ``classes``.
    """
    subject = parse_subject(text, RATES, source)
    if subject.workload_class not in (*classes, ALL_CLASSES):
        message = f"there is no class {subject.workload_class!r}; {nearest(subject.workload_class, classes)}"
        raise ConfigError(source, [Problem("", message, text)])
    return subject
