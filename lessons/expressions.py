"""Evaluates the expressions in lessons: ``alpha > 0.5``, ``p(1, 2) / q(1, 2)``, ``story.tau``.

Because a lesson's file is data, its expressions are interpreted on the syntax tree and can only do arithmetic.
"""

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

LONGEST = 200
_TWO: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.Pow: operator.pow, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}  # fmt: skip
_ONE: dict[type, Callable[[Any], Any]] = {ast.USub: operator.neg, ast.Not: operator.not_}
_SHAPES = (
    ast.Expression, ast.Constant, ast.Name, ast.Load, ast.Attribute, ast.Call, ast.BinOp, ast.UnaryOp, ast.Compare,
    ast.BoolOp, ast.And, ast.Or, *_TWO, *_ONE,
)  # fmt: skip


def parse(text: str) -> ast.expr:
    """Returns the syntax tree. ValueError, in words, unless ``text`` is an arithmetic expression."""
    if len(text) > LONGEST:
        raise ValueError(f"it has {len(text)} characters; {LONGEST} are allowed")
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError) as error:
        raise ValueError("it cannot be parsed") from error
    for node in ast.walk(tree):
        if not isinstance(node, _SHAPES) or (isinstance(node, ast.Call) and node.keywords):
            raise ValueError(f"it holds a {type(node).__name__}, which is not allowed")
        if isinstance(node, ast.Attribute) and (node.attr.startswith("_") or not isinstance(node.value, ast.Name)):
            raise ValueError("a dot may only come between the name of a run and one of its numbers")
    return tree.body


def names(text: str) -> set[str]:
    """Returns the names in an expression, its functions included."""
    return {node.id for node in ast.walk(parse(text)) if isinstance(node, ast.Name)}


def evaluate(text: str, names: Mapping[str, Any]) -> Any:
    """Returns the value of an expression; ``names`` holds numbers, functions, and for each run a mapping of these.

    >>> evaluate("2 * story.tau", {"story": {"tau": 1.5}})
    3.0
    """
    return _value(parse(text), names)


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return _lookup(names, name)
        case ast.Attribute(value=ast.Name(id=run), attr=name):
            return _lookup(_lookup(names, run), name)
        case ast.Call(func=function, args=arguments):
            return _value(function, names)(*(_value(argument, names) for argument in arguments))
        case ast.UnaryOp(op=op, operand=operand):
            return _ONE[type(op)](_value(operand, names))
        case ast.BinOp(left=left, op=op, right=right):
            return _TWO[type(op)](_value(left, names), _value(right, names))
        case ast.Compare(left=left, ops=ops, comparators=others):
            sides = [_value(side, names) for side in (left, *others)]
            return all(_TWO[type(op)](a, b) for op, a, b in zip(ops, sides, sides[1:], strict=False))
        case ast.BoolOp(op=ast.And(), values=values):
            return all(_value(value, names) for value in values)
        case ast.BoolOp(values=values):
            return any(_value(value, names) for value in values)
    raise ValueError(f"it holds a {type(node).__name__}, which is not allowed")


def _lookup(names: Mapping[str, Any], name: str) -> Any:
    if name not in names:
        raise ValueError(f"there is no {name!r}; there are {', '.join(sorted(names))}")
    return names[name]
