"""A name says what it holds: ``columns`` or ``state_names``, and not ``known``, ``given`` or ``wanted``.

Names from before this rule are counted, and their number may only fall.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

from tests.test_imports import FOLDERS, ROOT

#: Words that could be anything. With a noun they say it: ``known_types``.
SAY_NOTHING = frozenset({
    "asked", "called", "chosen", "done", "found", "given", "gone", "heard", "held", "known", "made", "named", "needed",
    "said", "seen", "shown", "sought", "taken", "told", "understood", "used", "wanted",
})  # fmt: skip
#: How many arguments, locals, fields and functions may have such a name, by package: what there is, in tens.
LEFT = {"connector": 210, "formats": 350, "statebackends": 420}


def names_that_say_nothing(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The line and the name of each argument, local, field, function and class."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            if node.arg in SAY_NOTHING:
                yield node.lineno, node.arg
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            if node.name.strip("_").lower() in SAY_NOTHING:
                yield node.lineno, node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in SAY_NOTHING:
            yield node.lineno, node.id


def test_they_are_counted() -> None:
    text = "def found(known, rows):\n    given: int = 1\n    for wanted, known_types in rows: pass\nclass Seen: ..."
    assert [*names_that_say_nothing(ast.parse(text))] == [
        (1, "found"), (4, "Seen"), (1, "known"), (2, "given"), (3, "wanted"),
    ]  # fmt: skip


def test_no_new_name_says_nothing() -> None:
    counts: Counter[str] = Counter()
    lines = []
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            found = [*names_that_say_nothing(ast.parse(path.read_text("utf-8")))]
            counts[folder] += len(found)
            lines += [f"{path.relative_to(ROOT)}:{line}: {name}" for line, name in found]
    more = {folder: counts[folder] for folder in FOLDERS if counts[folder] > LEFT[folder]}
    assert not more, f"{more} and not {LEFT}: give the new one a name that says what it holds\n" + "\n".join(lines)
