"""The figures of a run's trees, counted by hand on one tree."""

from dataclasses import replace

from fake_worker import recorded
from sample_traces import round_, token, tree

from app.views import trees


def test_rounds_are_counted_by_the_size_of_their_tree():
    one = tree()
    chain = round_(1, [token("rejected", 3, 1), token("resampled", 3, 1)], [0])
    figure = trees.draw_sizes(replace(one, rounds=(*one.rounds, chain, *one.rounds)))
    (bars,) = figure.data
    assert bars["x"] == [7] and bars["y"] == [2], "a chain is no tree"
    assert figure.note == "2 of 3 rounds drafted a tree. Of their 14 drafts 12 were tested."


def test_acceptance_is_counted_by_depth_and_by_rank_among_the_siblings():
    """a and b are siblings; below b are d, e and f, and g below f. Only c, below a, was not tested."""
    first, second, third = trees.draw_ranks(tree()).data
    assert (first["x"], first["text"]) == (["1", "2", "3"], ["0/1", "0/1", "0/1"])
    assert (second["x"], second["text"], second["y"]) == (["1", "2"], ["1/1", "0/1"], [1.0, 0.0])
    assert (third["name"], third["x"], third["text"]) == ("third", ["2"], ["1/1"])


def test_a_run_of_chains_has_no_trees():
    assert trees.has_trees(tree()) and not trees.has_trees(recorded()) and not trees.has_trees(None)
    assert trees.draw_sizes(recorded()) == trees.draw_ranks(recorded()) == trees.NONE
