"""The rule for names of functions in check_prose, and that its lists of exceptions only shrink."""

from check_prose import bare_names, stale_exceptions

SOURCE = """
class Some:
    @property
    def accepted(self): ...
    @property
    def shown(self): ...
    @property
    def started(self) -> bool: ...
    def _listed(self): ...
    def embed(self): ...
    def read_at(self): ...
def of(): ...
"""


def test_participles_and_prepositions_name_no_function(tmp_path):
    (tmp_path / "some.py").write_text(SOURCE)
    assert {name for _, name in bare_names(tmp_path / "some.py")} == {"shown", "_listed", "of"}


def test_every_exception_still_names_something():
    assert stale_exceptions() == []
