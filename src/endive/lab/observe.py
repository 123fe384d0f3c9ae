"""Observe the commits of a client, and derive its commit protocol from them.

The observer runs a command that makes one commit. In each run, the lab delays one request of the command while other writers, which
run the same command with other credentials, commit. If the other writers commit before the client writes its first data file, the
client needs additional requests, because its version is stale. If they commit before the client's first commit request, the client
loses the race. The observer does not need to know the table format.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from endive.arithmetic.draws import derive
from endive.formatting import format_count
from endive.lab import LabError
from endive.lab.behavior import Behavior
from endive.lab.client_processes import child_process, exit_code
from endive.lab.exchange import Intention
from endive.lab.observed_steps import (
    ObservedPhase,
    ObservedStep,
    Situation,
    Trial,
    commit_folder,
    fit_steps,
    group_runs,
    mark_metadata,
    split_phases,
    writes_metadata,
)
from endive.lab.open_lab import Lab, LabSettings, open_lab
from endive.lab.recording import RecordedRequest, classify
from endive.randomness import Purpose, Stream, run_key
from endive.storage import FixedLatency, ProfiledProvider, StorageProfile

RIVAL_COUNTS = (0, 1, 2, 3, 5, 8)
Place = Literal["data", "commit"]
OBSERVED, RIVAL = "observed", "rival"
_LATENCY_MS = 5.0
"""Latency of each request in ms, which is long enough that concurrent requests overlap."""
_COMMAND_S = 120.0
_MOST_RETRIES = 30
_FARTHEST = 9
"""Maximum number of concurrent commits when an additional commit checks the protocol."""


@dataclass(frozen=True)
class Observation:
    """Observed commit protocol.

    Attributes:
        commit_point: ``put_if_absent`` or ``swap``.
        steps: Steps of the protocol by phase.
        trials: Observed commits from which the steps were derived.
        retries: Number of retries after which the client aborts; None if it did not abort at the largest tested number.
        waits_ms: Longest pause between two requests after each lost race, in ms.
        folder: Folder of the object that commits create or swap; None if commits go to the catalog.
        has_data: True if a commit writes data files.
        retries_ms: Duration of the commit that lost all of its attempts, in ms.
    """

    commit_point: Literal["put_if_absent", "swap"]
    steps: dict[ObservedPhase, list[ObservedStep]]
    trials: tuple[Trial, ...]
    retries: int | None
    waits_ms: tuple[float, ...]
    folder: str | None
    has_data: bool = True
    retries_ms: float = 0.0

    @property
    def is_exact(self) -> bool:
        """True if the steps predict the number of requests in every observed commit."""
        return all(step.is_exact for steps in self.steps.values() for step in steps)

    def predict(self, phase: ObservedPhase, at: Situation) -> dict[str, int]:
        """Return the predicted number of requests in a phase, by operation and kind of object."""
        found: dict[str, int] = {}
        for step in self.steps.get(phase, []):
            name = " ".join(part for part in step.token if part)
            found[name] = found.get(name, 0) + step.predict(at)
        return {name: count for name, count in found.items() if count}


@dataclass
class _Hold:
    """Request of the observed client that the lab delays, at most ``times`` times, while concurrent writers commit."""

    place: Place
    times: int = 1
    folder: str | None = None
    has_data: bool = True
    by_metadata: bool = False

    def is_wanted(self, intention: Intention) -> bool:
        """Return whether the lab must delay this request."""
        if self.times == 0 or intention.client != OBSERVED:
            return False
        is_commit = intention.is_commit or (self.by_metadata and writes_metadata(intention.operation, intention.target))
        if self.place == "commit":
            return is_commit
        verb, kind = classify(intention.operation, intention.service, intention.target, self.folder)
        return is_commit or (verb == "write" and (kind == "data" or not self.has_data))


@dataclass
class _Parked:
    """Concurrent writer whose first request the lab delays: its process, and the events of the arrival and the release."""

    child: subprocess.Popen[bytes]
    arrived: threading.Event = field(default_factory=threading.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass
class Observer:
    """Observer, which runs a command in a lab and records its commits.

    Args:
        command: Command that makes one commit, and creates its table if the table does not exist.
        log: Function that prints progress.
        rival_command: Command that makes a concurrent commit to the same table; by default, the same command.
    """

    command: Sequence[str]
    log: Callable[[str], None] = lambda text: None
    rival_command: Sequence[str] = ()
    versions: int = 0
    """Number of commits so far, which equals the number of versions of the table."""
    _by_metadata: bool = field(default=False, init=False)
    """True if commits go to a catalog outside of the lab, so that writes of metadata files stand for commits."""
    _hold: _Hold | None = field(default=None, init=False)
    _lab: Lab | None = field(default=None, init=False)
    _parked: dict[str, _Parked] = field(default_factory=dict, init=False)
    _pool: concurrent.futures.ThreadPoolExecutor = field(
        default_factory=lambda: concurrent.futures.ThreadPoolExecutor(1), init=False
    )

    def observe(self, counts: Sequence[int] = RIVAL_COUNTS, checks: int = 0, seed: int = 0) -> tuple[Observation, int]:
        """Observe the command in a new lab.

        Args:
            counts: Numbers of concurrent commits.
            checks: Number of additional commits that check the protocol, with random numbers of concurrent commits.
            seed: Random seed of the additional commits.

        Returns:
            Observed protocol, and the number of additional commits whose requests the protocol predicts exactly.

        Raises:
            LabError: If the command fails, or makes no commit that the lab can observe.
        """
        with self.open_lab(max((*counts, _FARTHEST))) as lab:
            observation = self.observe_in(lab, counts)
            return observation, sum(is_predicted(observation, trial) for trial in self.run_checks(observation, checks, seed))

    @contextmanager
    def open_lab(self, most_rivals: int) -> Iterator[Lab]:
        """Open a lab for the observed client and up to ``most_rivals`` concurrent writers at a time."""
        clients = (OBSERVED, RIVAL, *(f"{RIVAL}-{number}" for number in range(most_rivals)))
        with open_lab(LabSettings(observing_behavior()), clients, self.gate) as lab:
            yield lab

    def run_checks(self, observation: Observation, number: int, seed: int = 0) -> list[Trial]:
        """Observe additional commits with random numbers of concurrent commits, alternating between both times of a trial."""
        stream = Stream(derive(run_key(seed), Purpose.CONFLICT))
        places: tuple[Place, ...] = ("data", "commit") if observation.retries != 0 else ("data",)
        return [
            self.run_trial(places[index % len(places)], stream.randint(0, _FARTHEST + 1), observation.folder, observation.has_data)
            for index in range(number)
        ]

    def observe_in(self, lab: Lab, counts: Sequence[int] = RIVAL_COUNTS) -> Observation:
        """Observe the command in a lab that ``open_lab`` has opened, and return its protocol."""
        self.create_table(lab)
        first = self.run_trial("data", 0)
        self._by_metadata = not any(each.is_commit for each in first.requests)
        first = replace(first, requests=self._mark_requests(first.requests))
        commits = [each for each in first.requests if each.is_commit]
        if not commits:
            raise LabError(
                "the lab observed no commit of the command. The lab recognizes commits to the REST catalog, conditional writes "
                "(If-None-Match, If-Match) to the object store, and writes of Iceberg metadata files to the object store"
            )
        folder = commit_folder(first.requests)
        has_data = any(
            classify(each.event.operation, each.event.service, each.event.target, folder) == ("write", "data")
            for each in first.requests
        )
        trials = [first]
        places: tuple[Place, ...] = ("data", "commit")
        for place in places:
            trials += [self.run_trial(place, rivals, folder, has_data) for rivals in counts if rivals]
        retries, waits, elapsed_ms = self._count_retries(folder)
        if retries == 0:
            trials = [trial for trial in trials if trial.place == "data"]
        elif retries != 1:
            trials.append(self.run_trial("commit", 1, folder, has_data, times=2))
        point: Literal["put_if_absent", "swap"] = "put_if_absent" if commits[0].event.detail == "if-none-match" else "swap"
        return Observation(point, _fit(trials, folder), tuple(trials), retries, waits, folder, has_data, elapsed_ms)

    def create_table(self, lab: Lab) -> None:
        """Run the command once, so that it creates its table."""
        self._lab, self.versions = lab, 0
        self.log("first run of the command, which creates the table")
        self._run(RIVAL)

    def run_trial(self, place: Place, rivals: int, folder: str | None = None, has_data: bool = True, times: int = 1) -> Trial:
        """Run the command once while other writers commit, and return its requests."""
        before = "the commit request" if place == "commit" else "the first data file"
        self.log(f"run of the command with {format_count(rivals, 'concurrent commit')} before {before}")
        assert self._lab is not None
        versions, start = self.versions, len(self._lab.recording.requests())
        with ExitStack() as stack:
            if times == 1:
                self._park_rivals(rivals, stack)
            self._hold = _Hold(place, times if rivals else 0, folder, has_data, self._by_metadata)
            try:
                self._run(OBSERVED, may_fail=rivals > 0)
            finally:
                self._hold, self._parked = None, {}
        requests = [each for each in self._lab.recording.requests(start) if each.client == OBSERVED]
        return Trial(place, rivals, versions, self._mark_requests(sorted(requests, key=lambda each: each.time_ms)))

    def _mark_requests(self, requests: Sequence[RecordedRequest]) -> tuple[RecordedRequest, ...]:
        return mark_metadata(requests) if self._by_metadata else tuple(requests)

    def _count_retries(self, folder: str | None) -> tuple[int | None, tuple[float, ...], float]:
        """Make every attempt lose the race. Return the number of retries, the pauses between attempts, and the total time."""
        trial = self.run_trial("commit", 1, folder, times=_MOST_RETRIES + 1)
        commits = [place for place, each in enumerate(trial.requests) if each.is_commit]
        ends = (*commits[1:], len(trial.requests) - 1)
        pairs = list(zip(commits, ends, strict=True))[: len(commits) - 1]
        waits = tuple(_longest_gap_ms(trial.requests[place : end + 1]) for place, end in pairs)
        lost = sum(trial.requests[place].event.outcome == "conflict" for place in commits)
        elapsed_ms = trial.requests[-1].end_ms - trial.requests[commits[0]].time_ms if commits else 0.0
        return None if lost > _MOST_RETRIES else len(commits) - 1, waits, elapsed_ms

    def _park_rivals(self, count: int, stack: ExitStack) -> None:
        """Start concurrent writers, and wait until the lab has received and delayed the first request of each.

        The observed client then waits only for their commits, not for their start, and does not reach its timeouts.
        """
        assert self._lab is not None
        null = subprocess.DEVNULL
        for number in range(count):
            name = f"{RIVAL}-{number}"
            child = child_process(self.rival_command or self.command, self._lab.environment(name), null, null)
            self._parked[name] = _Parked(stack.enter_context(child))
        for parked in self._parked.values():
            if not parked.arrived.wait(_COMMAND_S):
                raise LabError(f"{self.command[0]} sent no request within {_COMMAND_S:g} s")

    async def gate(self, intention: Intention) -> None:
        """Delay a request of the observed client until the concurrent writers have committed."""
        parked = self._parked.get(intention.client)
        if parked is not None:
            parked.arrived.set()
            await parked.released.wait()
            return
        hold = self._hold
        if hold is None or not hold.is_wanted(intention):
            return
        hold.times -= 1
        loop = asyncio.get_running_loop()
        for rival in list(self._parked.values()):
            rival.released.set()
            await loop.run_in_executor(self._pool, self._finish, rival)
        if not self._parked:
            await loop.run_in_executor(self._pool, self._run, RIVAL)

    def _finish(self, rival: _Parked) -> None:
        if exit_code(rival.child) == 0:
            self.versions += 1

    def _run(self, client: str, *, may_fail: bool = False) -> None:
        """Run the command with the credentials of a client, and count the new version of the table."""
        assert self._lab is not None
        null = subprocess.DEVNULL
        command = self.rival_command or self.command if client == RIVAL else self.command
        with child_process(command, self._lab.environment(client), null, subprocess.PIPE) as child:
            try:
                _, errors = child.communicate(timeout=_COMMAND_S)
            except subprocess.TimeoutExpired:
                raise LabError(f"{self.command[0]} did not end within {_COMMAND_S:g} s") from None
            code = exit_code(child)
        if code == 0:
            self.versions += 1
        elif not may_fail:
            last = errors.decode(errors="replace").strip().splitlines()[-1:] or [""]
            raise LabError(f"{self.command[0]} exited with code {code} in the lab: {last[0][:300]}")


def _longest_gap_ms(requests: Sequence[RecordedRequest]) -> float:
    """Return the longest time without a request in progress, in ms."""
    longest, end = 0.0, requests[0].end_ms
    for each in requests[1:]:
        longest, end = max(longest, each.time_ms - end), max(end, each.end_ms)
    return longest


def observing_behavior(latency_ms: float = _LATENCY_MS) -> Behavior:
    """Return the behavior of a lab in which all requests to the object store have the same latency."""
    latency = FixedLatency(latency_ms)
    profile = StorageProfile("observe", 0.0, {"*": latency}, {"*": latency}, latency)
    return Behavior(ProfiledProvider(profile, Stream(0)))


def _fit(trials: Sequence[Trial], folder: str | None) -> dict[ObservedPhase, list[ObservedStep]]:
    steps: dict[ObservedPhase, list[ObservedStep]] = {}
    for phase in get_args(ObservedPhase):
        runs, situations = [], []
        for trial in trials:
            found = split_phases(trial, folder)
            if phase in found:
                runs.append(group_runs(found[phase], folder))
                situations.append(situation_of(trial, phase))
        steps[phase] = fit_steps(runs, situations)
    return steps


def situation_of(trial: Trial, phase: ObservedPhase) -> Situation:
    """Return the situation of the observed client in a phase of a trial."""
    is_behind = phase == "after_loss" or (phase != "load" and trial.place == "data")
    losses = sum(each.is_commit for each in trial.requests) - 1 if phase == "after_success" else 0
    return Situation(trial.rivals if is_behind else 0, trial.versions, losses)


def count_kinds(requests: Sequence[RecordedRequest], folder: str | None) -> dict[str, int]:
    """Return the number of requests by operation and kind of object."""
    found: dict[str, int] = {}
    for each in requests:
        token = classify(each.event.operation, each.event.service, each.event.target, folder)
        name = " ".join(part for part in token if part)
        found[name] = found.get(name, 0) + 1
    return found


def is_predicted(observation: Observation, trial: Trial) -> bool:
    """Return whether the observed steps predict the requests of an additional commit exactly."""
    found = split_phases(trial, observation.folder)
    return all(
        count_kinds(requests, observation.folder) == observation.predict(phase, situation_of(trial, phase))
        for phase, requests in found.items()
    )
