"""How commands are declared: a class for each, with a field for each of its arguments."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from inspect import get_annotations
from typing import Any


@dataclass(frozen=True)
class Argument:
    """An argument of a command: names, and what argparse takes."""

    names: tuple[str, ...]
    settings: dict[str, Any]


@dataclass(frozen=True)
class Declared:
    """What a field of a command says of its argument, beside its name and type."""

    is_positional: bool
    names: tuple[str, ...]
    settings: dict[str, Any]

    def bound(self, field: str, values: str) -> Argument:
        """Return the argument of a field, whose values have a type.

        >>> option("no more than these").bound("limit", "int | None")
        Argument(names=('--limit',), settings={'help': 'no more than these', 'type': <class 'int'>})
        """
        settings, kind = dict(self.settings), values.removesuffix(" | None")
        is_needed, is_list = kind == values and "default" not in settings, kind.startswith("list[")
        if kind == "bool":
            return Argument((*self.names, _flag(field)), settings | {"action": "store_true"})
        if "int" in kind:
            settings["type"] = int
        if self.is_positional:
            settings |= {"nargs": "+"} if is_list else {} if is_needed else {"nargs": "?"}
            return Argument((field,), settings)
        if kind.startswith("list[list[") or (is_list and not is_needed):
            settings["nargs"] = "+"
        if is_list and is_needed:
            settings |= {"action": "append", "default": []}
        elif is_needed:
            settings["required"] = True
        return Argument((*self.names, _flag(field)), settings)


def _flag(field: str) -> str:
    return f"--{field.replace('_', '-')}"


def option(help: str, *, short: str | None = None, **settings: Any) -> Any:  # noqa: A002
    """Declare an option. The field has its name, and the type of its values.

    ``bool`` is a flag, ``list[str]`` may be repeated, ``list[str] | None`` takes several values. An option whose type
    has no None, and which has no default, must be given.
    """
    return Declared(False, () if short is None else (short,), {"help": help, **settings})


def positional(help: str, **settings: Any) -> Any:  # noqa: A002
    """Declare an argument without a name on the command line: ``str | None`` may be left out, ``list[str]`` is some."""
    return Declared(True, (), {"help": help, **settings})


class Arguments:
    """Arguments of a command: a field for each, whose type is that of its values.

    Those of a class with ``shared`` are not listed for each command in the reference. Those of a class with ``first``
    come before all others.
    """

    is_shared = True
    is_first = False

    debug: bool = option("show the traceback of an error")

    def __init_subclass__(cls, *, shared: bool = False, first: bool = False) -> None:
        cls.is_shared, cls.is_first = shared, first


@dataclass(frozen=True)
class Command:
    """A command: the module and function of this folder that run it, its group, what it takes, and examples."""

    runs: str
    group: str
    takes: type[Arguments]
    examples: tuple[str, ...]

    @property
    def name(self) -> str:
        """Its name, which is that of its class: ``set-offsets`` of ``SetOffsets``."""
        return re.sub("(?<!^)([A-Z])", r"-\1", self.takes.__name__).lower()

    @property
    def about(self) -> str:
        """What it does."""
        text = self._paragraphs[0]
        return text[0].lower() + text[1:].removesuffix(".")

    @property
    def more(self) -> str:
        """What else one should know."""
        return " ".join(self._paragraphs[1:])

    @property
    def _paragraphs(self) -> list[str]:
        return [" ".join(part.split()) for part in (self.takes.__doc__ or "").split("\n\n")]

    @property
    def _classes(self) -> list[type[Arguments]]:
        return [one for one in self.takes.__mro__ if issubclass(one, Arguments)]

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """Its own arguments."""
        return arguments_of(one for one in self._classes if not one.is_shared)

    @property
    def all_arguments(self) -> tuple[Argument, ...]:
        """Its arguments and those that every command has."""
        return arguments_of(self._classes)


def arguments_of(classes: Iterable[type[Arguments]]) -> tuple[Argument, ...]:
    """Return the arguments that classes declare, each once: an inherited snapshot and new folder before all others."""
    declared: dict[str, tuple[bool, Argument]] = {}
    for one in classes:
        types = get_annotations(one)
        for field, value in one.__dict__.items():
            if isinstance(value, Declared) and field not in declared:
                declared[field] = one.is_first, value.bound(field, types[field])
    return tuple(argument for _, argument in sorted(declared.values(), key=lambda each: not each[0]))
