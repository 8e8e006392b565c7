"""Answers to names that do not exist: of verbs, and of their arguments."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from difflib import get_close_matches
from functools import wraps
from inspect import CO_VARKEYWORDS, unwrap
from types import FunctionType
from typing import TYPE_CHECKING, NoReturn, ParamSpec, TypeVar

from pyspark_savepoint.formats.errors import OptionError, did_you_mean, type_name
from pyspark_savepoint.text.doors import in_words

P = ParamSpec("P")
A = TypeVar("A")

#: Names that arguments of verbs had before.
FORMER = {"df": "rows", "flink": "flink_version", "name": "state", "to": "reset", "types_from": "classes"}


def own_arguments(verb: Callable[P, A]) -> Callable[P, A]:
    """Let a verb answer a former argument with its new name, and without options a misspelt one with the nearest.

    A flag takes True and False only: ``lose_data="no"`` would be true.
    """
    declared = unwrap(verb)
    code = declared.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    known = [name for name in names if name not in ("self", "cls")]
    former = {name: new for name, new in FORMER.items() if new in known and name not in known}
    has_options = code.co_flags & CO_VARKEYWORDS
    flags = {name for name, default in (declared.__kwdefaults__ or {}).items() if isinstance(default, bool)}

    @wraps(verb)
    def called(*args: P.args, **arguments: P.kwargs) -> A:
        __tracebackhide__ = True  # of pytest: where an assertion fails is in the test
        for name, value in arguments.items():
            if name in former or not (has_options or name in names):
                remedy = f"it is {former[name]!r} now" if name in former else did_you_mean(name, known)
                raise OptionError(f"{verb.__name__}() has no argument {name!r}", remedy=remedy)
            if name in flags and not isinstance(value, bool):
                raise OptionError(
                    f"argument {name!r} of {verb.__name__}() is true or false",
                    expected="True or False",
                    found=f"{type_name(value)}: {value!r}",
                )
        owner = args[0] if args else None
        with in_words(owner._worded) if isinstance(owner, HelpfulNames) else nullcontext():
            return verb(*args, **arguments)

    return called


class HelpfulNames:
    """Answers names that do not exist: those of verbs, and those of their arguments."""

    #: Its words for what shared code says.
    _worded: Callable[[str], str]

    def __init_subclass__(cls) -> None:
        """Let each verb with arguments answer one that is misspelt, or has a new name."""
        super().__init_subclass__()
        for name, verb in list(cls.__dict__.items()):
            if not isinstance(verb, FunctionType) or name.startswith("_"):
                continue
            code = unwrap(verb).__code__
            if code.co_argcount + code.co_kwonlyargcount > 1 or code.co_flags & CO_VARKEYWORDS:
                setattr(cls, name, own_arguments(verb))

    if not TYPE_CHECKING:  # type checkers report a name that does not exist

        def __getattr__(self, name: str) -> NoReturn:
            """Raise AttributeError with the nearest verb."""
            near = get_close_matches(name, [verb for verb in dir(type(self)) if verb[0] != "_"], n=1, cutoff=0.6)
            instead = f"did you mean {near[0]!r}?" if near else f"verbs: {', '.join(verbs_of(type(self)))}"
            raise AttributeError(f"{self._called} has no {name!r}; {instead}", name=name, obj=self)


def verbs_of(family: type) -> list[str]:
    """Return the names of the verbs of a class, in the order in which they are declared."""
    return [name for name in family.__dict__ if not name.startswith("_")]


def words_of(savepoint: HelpfulNames) -> Callable[[str], str]:
    """Return the words of a savepoint for what shared code says."""
    return savepoint._worded
