"""Traces made by hand, for tests that need no model."""

import json
from dataclasses import replace

from engine.trace import events
from engine.trace.costs import CostModel
from engine.trace.events import Candidate, Distribution, Forbidden, PromptToken, Round, RunStarted, Token
from engine.trace.trace import Trace, to_json, with_branch


def token(status="plain", position=0, depth=1, **known) -> Token:
    return Token(7, "x", status, position, depth, **known)


def round_(index, tokens, parents=(), **settings) -> Round:
    known = {"gamma": len(parents), "draft_steps": 0, "context": 3, "timings": events.Timings(0.0, 0.1, 0.0, 0.0)}
    return Round(index, tokens=tuple(tokens), parents=tuple(parents), start=index * 0.1, end=index * 0.1 + 0.1,
                 **(known | settings))  # fmt: skip


def small() -> Trace:
    """Two rounds: one accepted, one rejected and one discarded draft with all their numbers, then a plain token."""
    top = Distribution((Candidate(7, "x", 0.75), Candidate(8, "<b>", 0.125)), 0.125)
    numbers = {"p": 0.75, "q": 0.5, "accept": 1.0, "p_top": top, "q_top": top}
    first = round_(0, [
        token("accepted", 0, 1, u=0.1, **numbers),
        token("rejected", 1, 2, u=0.9, residual=top, gap=0.5, **numbers),
        token("discarded", 2, 3, label="\U0001f642", **numbers),
        token("resampled", 1, 2, u=0.25, p=0.3),
    ], [0, 1, 2])  # fmt: skip
    costs = CostModel(0.2, {1: 1.0, 4: 1.3}, 256, 0.03, 0.01)
    started = RunStarted(
        {"prompt": "hi", "gamma": "auto", "stop": [], "sampling": {"temperature": 0.0}, "seed": 2**63 - 1},
        (PromptToken(1, "hi"),), "a-pair", "main", {"target": "abc"}, "cpu", "fp32", {"torch": "2"}, costs,
        exit_layers=(2, 30),
    )  # fmt: skip
    end = events.RunFinished("length", "xx", 0.01, 0.1, 0.2, 0.21, 10**9, {"note": [1, None, "é"]})
    return Trace(started, (first, round_(1, [token("plain", 2)])), end)


def small_with_branch() -> Trace:
    """The small trace, and a branch in which its second token was another one."""
    run = small()
    prefix = (PromptToken(run.output[0], "x"), PromptToken(9, "y"))
    branch = Trace(replace(run.started, prefix=prefix), (round_(0, [token("plain", 2)]),), run.finished)
    return with_branch(run, branch)


def constrained() -> Trace:
    """The small trace under a regular expression: a token from the grammar, two drafts that it forbids, one of them in
    a round without others, and what it took of p."""
    run = small()
    taken = Distribution((Candidate(3, "The", 0.5), Candidate(8, "<b>", 0.125)), 0.125)
    accepted, *others = (replace(token, removed=taken) for token in run.rounds[0].tokens)
    first = replace(
        run.rounds[0], tokens=(replace(accepted, from_grammar=True), *others), forbidden=(Forbidden(5, "<i>", 3, 3),)
    )
    second = replace(run.rounds[1], forbidden=(Forbidden(6, "no", 0, 2),))
    config = run.started.config | {"constraint": {"kind": "regex", "text": "x+", "compact": False}}
    finished = replace(run.finished, notes=("The text is unfinished, because the token limit was reached.",))
    return replace(run, started=replace(run.started, config=config), rounds=(first, second), finished=finished)


def constrained_tree() -> Trace:
    """The tree under a constraint that forbids two drafts: one after a, which was not followed, and one after f, whose
    place g was tested in."""
    run, taken = tree(), Distribution((Candidate(3, "The", 0.5),), 0.25)
    tokens = tuple(replace(token, removed=taken) for token in run.rounds[0].tokens)
    forbidden = (Forbidden(5, "five", 1, 1), Forbidden(6, "six", 6, 2))
    config = run.started.config | {"constraint": {"kind": "choice", "text": "b", "compact": False}}
    rounds = (replace(run.rounds[0], tokens=tokens, forbidden=forbidden),)
    return replace(run, started=replace(run.started, config=config), rounds=rounds)


def tree() -> Trace:
    """Two first drafts, three after the second of them; the second and then its last child are kept.

    a ── c, and b ── d, e, f ── g: drafted level by level, as a tree drafter does.
    """
    shape = [("a", 0, "rejected"), ("b", 0, "accepted"), ("c", 1, "discarded"), ("d", 2, "rejected"),
             ("e", 2, "rejected"), ("f", 2, "accepted"), ("g", 6, "rejected")]  # fmt: skip
    depth, position, drafts = [0], {0: -1}, []
    for i, (text, parent, status) in enumerate(shape, 1):
        depth.append(depth[parent] + 1)
        position[i] = position[parent] + 1
        u = None if status == "discarded" else 0.5
        drafts.append(Token(i, text, status, position[i], depth[i], p=0.2, q=0.4, u=u, accept=0.5))
    closing = Token(9, "z", "resampled", 2, 3, p=0.5, u=0.1)
    parents = tuple(parent for _, parent, _ in shape)
    drafted = round_(0, [*drafts, closing], parents, draft_steps=3)
    run = small()
    config = run.started.config | {"sampling": {"temperature": 0.8}}
    return replace(run, started=replace(run.started, config=config), rounds=(drafted,))


def siblings() -> Trace:
    """Two first drafts without successors, both rejected; the closing token has the q of the second one's draw."""

    def masses(*pairs) -> Distribution:
        top = tuple(Candidate(i, text, mass) for i, text, mass in pairs)
        return Distribution(top, 1 - sum(candidate.mass for candidate in top))

    left = masses((3, "z", 0.8), (2, "b", 0.2))
    both = {"accept": 0.1, "u": 0.5, "p_top": masses((3, "z", 0.7), (2, "b", 0.2), (1, "a", 0.1))}
    first = Token(1, "a", "rejected", 0, 1, p=0.1, q=0.875, q_top=masses((1, "a", 0.875), (3, "z", 0.125)),
                  residual=left, **both)  # fmt: skip
    second = Token(2, "b", "rejected", 0, 1, p=0.2, q=0.5, q_top=masses((2, "b", 0.5), (3, "z", 0.5)),
                   residual=masses((3, "z", 1.0)), **both)  # fmt: skip
    closing = Token(3, "z", "resampled", 0, 1, p=0.7, q=0.5, u=0.1)
    run = tree()
    return replace(run, rounds=(round_(0, [first, second, closing], [0, 0], draft_steps=1),))


def changed(*path, to) -> str:
    """The small trace as JSON with one value replaced; ``to`` is JSON text, so it may hold what json cannot write."""
    raw = json.loads(to_json(small_with_branch() if path[0] == "branch" else small()))
    place = raw
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = "@@"
    return json.dumps(raw).replace('"@@"', to)


def started(config) -> RunStarted:
    return RunStarted({"prompt": config.prompt}, (), config.pair, "", {}, "cpu", "fp32", {})


def finished(reason="length") -> events.RunFinished:
    return events.RunFinished(reason, "", 0.0, 0.0, 0.0, 0.0)
