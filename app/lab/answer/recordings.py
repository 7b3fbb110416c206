"""Answers from recordings of a visitor's own server, whose acceptance replaces this page's models' own."""

from collections.abc import Sequence
from functools import cached_property

from app.lab.theory import server_view
from app.views import servers
from app.views.figures import Figure
from app.views.tiles import speedup
from engine.errors import BadInput, percent, quantity
from engine.tools.servers.costs import ServerPoint, Split, split, verdict
from engine.trace.metrics import RunMetrics, compute_metrics
from engine.trace.noise import Speedup
from engine.trace.trace import Trace

LOAD = (
    "Drafting pays less with more requests at once. Measure how much less with "
    "python -m engine server compare ON_URL OFF_URL --users 1,4."
)
ASSUMED = "The server counts no drafts: a recording that shows none is taken as the speed without them."
MORE = "For a prediction of other γ, record the same prompts without drafts, with γ = 1 and with another γ."


class Recordings:
    """Recordings of one model on one server, by the most tokens that each drafted in a round. Raises BadInput with a
    sentence for the visitor."""

    def __init__(self, traces: Sequence[Trace]):
        if not traces or not all(trace.started.server for trace in traces):
            raise BadInput("These must be recordings of a server; python -m engine server record makes them.")
        if len({(trace.started.server.engine, trace.started.pair) for trace in traces}) > 1:
            raise BadInput("These recordings are of several models or engines; open the recordings of one.")
        self.traces, self.by_gamma, self.is_assumed = traces, {}, False
        for trace in traces:
            gamma = servers.longest_draft(trace)
            if gamma is None and servers.may_have_drafted(trace):
                raise BadInput(
                    f"{servers.name(trace.started.server)} does not tell how many tokens it drafted, so its γ "
                    "and acceptance are unknown. Lab → Theory takes its speed, with γ typed in."
                )
            self.is_assumed |= gamma is None
            self.by_gamma.setdefault(gamma or 0, []).append(trace)

    @cached_property
    def gammas(self) -> dict[int, list[RunMetrics]]:
        return {gamma: [*map(compute_metrics, traces)] for gamma, traces in sorted(self.by_gamma.items())}

    @property
    def title(self) -> str:
        return f"{self.traces[0].started.pair[: servers.LONGEST]} on {servers.name(self.traces[0].started.server)}"

    def speed(self, gamma: int) -> float | None:
        """Returns tokens a second of all recordings with γ; None without a time."""
        metrics = self.gammas[gamma]
        seconds = sum(each.decode_seconds for each in metrics)
        return sum(each.decoded for each in metrics) / seconds if seconds else None

    @cached_property
    def points(self) -> list[ServerPoint]:
        return [
            ServerPoint(gamma, each.tokens_per_second, each.tau.value if gamma and each.tau else 1.0)
            for gamma, metrics in self.gammas.items()
            for each in metrics
            if each.tokens_per_second and (each.tau or not gamma)
        ]

    @cached_property
    def parts(self) -> Split | None:
        """The parts of a step; None for too few draft lengths, or where no costs explain them."""
        try:
            parts = split(self.points)
        except BadInput:
            return None
        return parts if parts.fixed is not None else None


def sentences(recordings: Recordings) -> dict[str, str]:
    """Returns the answer, worded like `engine.tools.bench.answer_words.sentences` about this page's models."""
    parts, n = recordings.parts, len(recordings.traces)
    one = "Each draft length was recorded once" if max(map(len, recordings.by_gamma.values())) == 1 else "Recorded"
    return {
        "answer": verdict(parts)[0] if parts else _speedup_words(recordings),
        "alone": _tokens(recordings),
        "kinds": "",
        "change": f"{'' if parts else MORE} {LOAD}".strip(),
        "sure": f"{one}: {quantity(n, 'recording')} of {recordings.title}, for one user, by the client's clock. "
        + ("Other γ are predicted from them." if parts else "Nothing is predicted.")
        + (f" {ASSUMED}" if recordings.is_assumed else ""),
    }


def _speedup_words(recordings: Recordings) -> str:
    """Words the speedup at the draft length that was recorded, where plain decoding was recorded, too."""
    each = {gamma: recordings.speed(gamma) for gamma in recordings.by_gamma}
    speeds = {gamma: speed for gamma, speed in each.items() if speed is not None}
    if len(speeds) < 2 or 0 not in speeds or len(speeds) < len(each):
        return f"{recordings.title}: no speedup is known from these recordings."
    best = max(filter(None, speeds), key=lambda gamma: speeds[gamma])
    pair = [recordings.by_gamma[gamma] for gamma in (best, 0)]
    ratio = speedup(pair[0][0], pair[1][0]) if max(map(len, pair)) == 1 else Speedup(speeds[best] / speeds[0])
    if ratio is None or not ratio.is_possible:
        return "These recordings are noise: faster than their tokens per pass allow. Record them again."
    against = f"{speeds[best]:.1f} against {speeds[0]:.1f} tokens/s"
    return f"With γ = {best} it ran at {ratio.words} the speed without drafts: {against}."


def _tokens(recordings: Recordings) -> str:
    """Returns tokens per pass and acceptance of this very model, by draft length."""
    words = []
    for gamma, metrics in recordings.gammas.items():
        if gamma:
            tau = sum(each.decoded for each in metrics) / max(1, sum(each.passes for each in metrics))
            tested = sum(each.tested for each in metrics)
            accepted = sum(each.accepted for each in metrics)
            share = f", {percent(accepted / tested)} of the tested drafts were accepted" if tested else ""
            words.append(f"With γ = {gamma} a pass gives {tau:.2f} tokens{share}.")
    return " ".join(words)


def configuration(recordings: Recordings) -> str:
    """Says what to change on the server, whose other settings are not known here."""
    parts = recordings.parts
    if parts is None:
        return "No setting is proposed from these recordings."
    change = f"set its number of drafts to {parts.best}" if parts.best else "switch its drafts off"
    return f"Keep your server's configuration, and {change}."


def picture(recordings: Recordings) -> Figure:
    return server_view.figure(recordings.parts, recordings.points)
