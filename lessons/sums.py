"""Small sums that a lesson writes down: ``alpha > 0.5``, ``p(1, 2) / q(1, 2)``, ``story.tau``. Knows no lesson.

A lesson's file is data, so its sums are walked on the syntax tree and can do arithmetic and nothing else.
"""

import ast
import operator
from collections.abc import Mapping
from typing import Any

LONGEST = 200
_TWO = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.Pow: operator.pow, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}  # fmt: skip
_ONE = {ast.USub: operator.neg, ast.Not: operator.not_}
_SHAPES = (
    ast.Expression, ast.Constant, ast.Name, ast.Load, ast.Attribute, ast.Call, ast.BinOp, ast.UnaryOp, ast.Compare,
    ast.BoolOp, ast.And, ast.Or, *_TWO, *_ONE,
)  # fmt: skip


def parse(text: str) -> ast.expr:
    """ValueError, in words, where it is no sum."""
    if len(text) > LONGEST:
        raise ValueError(f"it has {len(text)} characters; a sum has up to {LONGEST}")
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError) as error:
        raise ValueError("it cannot be read as a sum") from error
    for node in ast.walk(tree):
        if not isinstance(node, _SHAPES) or (isinstance(node, ast.Call) and node.keywords):
            raise ValueError(f"it holds a {type(node).__name__}, which no sum needs")
        if isinstance(node, ast.Attribute) and (node.attr.startswith("_") or not isinstance(node.value, ast.Name)):
            raise ValueError("a dot stands between the name of a run and one of its numbers")
    return tree.body


def work_out(text: str, names: Mapping[str, Any]) -> Any:
    """The value of a sum; ``names`` holds numbers, functions, and one mapping of the same kind for each run.

    >>> work_out("2 * story.tau", {"story": {"tau": 1.5}})
    3.0
    """
    return _value(parse(text), names)


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return _named(names, name)
        case ast.Attribute(value=ast.Name(id=run), attr=name):
            return _named(_named(names, run), name)
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
    raise ValueError(f"no sum has a {type(node).__name__}")


def _named(names: Mapping[str, Any], name: str) -> Any:
    if name not in names:
        raise ValueError(f"there is no {name!r}; there are {', '.join(sorted(names))}")
    return names[name]
