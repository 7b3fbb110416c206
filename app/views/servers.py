"""Words what the recording of another engine's server tells, and what it leaves open. Knows no gradio."""

from engine.trace.events import Server
from engine.trace.trace import Trace

LONGEST = 60  # characters of a title
MOST_NOTES = 10  # notes of a recording that are shown
COUNTED = "{} tells which guesses it accepted, how many it rejected, and when each round ended."
UNCOUNTED = "{} tells how many tokens came at once, and when. How many guesses it rejected is unknown."
NO_SERVER_TELLS = "No server tells q, u or the residual."
LOG = "llama-server’s log"  # the adapter of `engine.tools.servers.log_trace`
LOG_TELLS = "It tells each draft’s three likeliest words with q, of a draft model or a head; no p, u or residual."
HOW_TO_COUNT = {  # adapter → how its engine tells how many guesses it rejected
    "vLLM": "vLLM lists them for each round if it is started with --per-request-spec-decode-metrics detailed.",
    "SGLang": "SGLang gives totals, which say it only where all rounds are alike.",
    "llama-server": "llama-server counts them from its first round with drafts on.",
    "LM Studio": "LM Studio gives totals; they do not say which round drafted what.",
    "Ollama": "Ollama tells nothing of its drafts; since 0.30 its log does, and engine server read reads it.",
    "TensorRT-LLM": "TensorRT-LLM gives totals with return_perf_metrics, which say it only where all rounds are alike.",
}
WHO_CAN_COUNT = "vLLM, llama-server, SGLang and TensorRT-LLM can tell it; docs/servers.md says how."
SPLIT = "Lab → Theory splits its step into parts, from tokens/s and acceptance length at some γ."


def name(server: Server) -> str:
    """Returns the engine and its version; "A server" where neither is known."""
    words = server.title if server.title not in ("", "server") else "A server"
    return f"{words[:LONGEST]}{'…' * (len(words) > LONGEST)}"


def title(server: Server) -> str:
    """Returns the heading of a recording that a visitor opened: whose engine it was, and that the recording is theirs.

    >>> title(Server("vLLM", "0.33.0", "m", "vLLM"))
    'vLLM 0.33.0, your recording'
    """
    return f"{name(server)}, your recording"


def inspector_sentences(server: Server) -> list[str]:
    """Returns sentences for the inspector: what this engine tells, how it would tell more, and the recording's own."""
    words = f"{UNCOUNTED.format(name(server))} {HOW_TO_COUNT.get(server.adapter, WHO_CAN_COUNT)}"
    if server.has_counts:
        words = COUNTED.format(name(server))
    more = LOG_TELLS if server.adapter == LOG else NO_SERVER_TELLS
    return [f"{words} {more}", *server.notes[:MOST_NOTES]]


def longest_draft(run: Trace) -> int | None:
    """Returns the most tokens that were drafted in a round, the γ of a recording; None where its server does not count
    them. ``Trace.has_drafts`` then still says whether the stream shows some."""
    server = run.started.server
    if server and not server.has_counts:
        return None
    return max((len(each.parents) for each in run.rounds), default=0)


def may_have_drafted(run: Trace) -> bool:
    """Returns whether a recording holds drafts, in its rounds, in its totals, or in tokens that no piece shows or
    no server counts."""
    server = run.started.server
    return run.has_drafts or bool(server and (server.counters.get("drafted") or server.hidden_tokens != 0))


def opening_sentence(run: Trace, baseline: Trace | None) -> str:
    """Returns what the page says when a recording is opened."""
    model, end = run.started.pair[:LONGEST], "Run uses the models of this page, not yours."
    if not may_have_drafted(run):
        return f"{model} on your server. Its stream shows no drafts. Open one with drafts, too, to compare. {end}"
    unknown = "Dashed boxes are guesses that it rejected: it tells how many, not which words."
    if any(token.q is not None and not token.emitted for each in run.rounds for token in each.tokens):
        unknown = "Its log tells the guesses that it rejected, too, with q."
    if not run.started.server.has_counts:
        unknown = "It does not tell how many guesses it rejected, so none are drawn."
    beside = "Open a recording without drafts, too, to see the speedup."
    if baseline:
        beside = "Beside it is the recording without drafts."
    return f"{model} on your server. {unknown} {beside} {end}"
