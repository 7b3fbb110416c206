"""The colours of the page are roles of colours.css."""

import re

from app.ui.html_component import WEB

NAMED = "aqua|black|blue|gr[ae]y|green|indigo|lime|navy|orange|pink|purple|red|silver|teal|violet|white|yellow"
LITERAL = re.compile(
    rf"#[\da-f]{{3,8}}\b|\b(?:rgb|hsl|hwb|lab|lch|oklab|oklch|color)a?\(|(?<![\w-])(?:{NAMED})(?![\w-])", re.I
)
BLOCK = re.compile(r"([^{};]*)\{([^{}]*)\}")  # matches rules, also inside @media and @keyframes


def literals(css: str) -> list[str]:
    css = re.sub(r"/\*.*?\*/", "", css, flags=re.S)
    blocks = [block for selector, block in BLOCK.findall(css) if not re.search(r"::(highlight|backdrop)\b", selector)]
    return [found for block in blocks for found in LITERAL.findall(block)]


def test_css_has_no_colour_outside_of_its_roles():
    files = sorted(WEB.rglob("*.css"))
    found = {path.relative_to(WEB).as_posix(): literals(path.read_text(encoding="utf-8")) for path in files}
    assert len(found.pop("colours.css")) > 40
    assert len(found) > 15 and {name: colours for name, colours in found.items() if colours} == {}


def test_a_literal_colour_is_noticed():
    css = """@media print { #face { color: #000; white-space: nowrap; } }
        .sl-green { border: 1px solid White; background: color-mix(in srgb, var(--sl-green) 9%, transparent); }
        ::highlight(a) { color: #123456; } @keyframes a { 50% { box-shadow: 0 0 rgb(1 2 3 / .2); } }"""
    assert literals(css) == ["#000", "White", "rgb("]
