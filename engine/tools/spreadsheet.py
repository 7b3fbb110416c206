"""Makes cells of a CSV that spreadsheets show and never run."""

# Some spreadsheet takes a cell that begins so for a formula; East Asian versions take the wide forms, too.
_STARTS_FORMULA = tuple("=+-@|%\t\r\n＝＋－＠")


def escape_formula(text: str) -> str:
    """Returns the text, after an apostrophe if it would begin a formula.

    >>> escape_formula("=1+1")
    "'=1+1"
    """
    begins = text.startswith(_STARTS_FORMULA) or text.lstrip().startswith(_STARTS_FORMULA)
    return f"'{text}" if begins else text
