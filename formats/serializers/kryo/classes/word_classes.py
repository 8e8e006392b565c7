"""Classes described in option ``kryoTypes``, for jobs whose class files are not available.

    classes := class (";" class)*
    class   := ["final"] name ["extends" name] "(" [field ("," field)*] ")"     every field that Kryo writes
             | name "ENUM" "(" constant ("," constant)* ")"
             | name "VARIANT"                                                   described elsewhere; shown as VARIANT
    field   := name type
    type    := primitive | word | name ["<" type ("," type)* ">"], each optionally followed by "[]"

``com.shop.Money(cents LONG, cur STRING); com.shop.Status ENUM(NEW, PAID)``. Kryo writes primitive types and boxes
differently: ``LONG`` and ``long`` are the primitive type, ``Long`` and ``NULLABLE<LONG>`` the box. Classes of
``java.lang``, ``java.util``, ``java.time`` and ``java.math`` need no package, unless the text describes a class of that
very name: a job may have a ``Locale`` without a package.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from pyspark_savepoint.formats.class_files.class_file import ENUM, FINAL, PUBLIC, STATIC, JavaClass, JavaField
from pyspark_savepoint.formats.class_files.java_types import (
    OBJECT,
    ArrayType,
    ClassSignature,
    ClassType,
    JavaType,
    PrimitiveType,
    Wildcard,
)
from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.serializers.java_classes import CLASSES
from pyspark_savepoint.formats.serializers.kryo.classes.jdk_classes import GENERAL, LAYOUTS, OPEN_CLASSES, WRAPPERS

TOKEN = re.compile(r"\s*(?:([\w$.]+)|([<>(),;?]|\[\]))")
MAX_WORDS_DEPTH = 32
_PRIMITIVES = ("boolean", "byte", "char", "double", "float", "int", "long", "short")
_BOXES = {"int": "Integer", "char": "Character"}
#: Java classes by the words of this package's notation of types, which are in upper case.
_WORDS: Mapping[str, str] = {
    **CLASSES,
    "BIG_DEC": "java.math.BigDecimal",
    "BIG_INT": "java.math.BigInteger",
    "DURATION": "java.time.Duration",
    "UUID": "java.util.UUID",
    "LIST": "java.util.List",
    "SET": "java.util.Set",
    "MAP": "java.util.Map",
    "OPTIONAL": "java.util.Optional",
}
_PACKAGES = frozenset(
    {
        *("java.lang", "java.math", "java.net", "java.time"),
        *("java.util", "java.util.concurrent", "java.util.concurrent.atomic"),
    }
)
#: The listed classes of these packages by their simple names.
SIMPLE: Mapping[str, str] = {
    name.rpartition(".")[2]: name
    for name in (*WRAPPERS, *LAYOUTS, *GENERAL, *OPEN_CLASSES)
    if name.rpartition(".")[0] in _PACKAGES and "$" not in name
}


@dataclass(frozen=True)
class WordClasses:
    """Classes by name, and those that are shown as VARIANT."""

    classes: Mapping[str, JavaClass] = field(default_factory=dict)
    variants: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, text: str) -> WordClasses:
        """Parse the text; raise OptionError that shows where it is not valid."""
        return _Parser(text).parse()

    def find(self, name: str) -> JavaClass | None:
        """Return the class of a name; None if the text does not describe it."""
        return self.classes.get(name)


class _Parser:
    """Parser of the text of ``kryoTypes``."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[tuple[str, int]] = []
        position, end = 0, len(text.rstrip())
        while position < end:
            match = TOKEN.match(text, position)
            if match is None:
                self.refuse(position, "a name, or one of < > ( ) , ; []")
            self.tokens.append((match[1] or match[2], match.start(1 if match[1] else 2)))
            position = match.end()
        self.place = 0
        words = [word for word, _ in self.tokens]
        begins = [0, *(place + 1 for place, word in enumerate(words) if word == ";")]
        #: The names of all classes of the text, also of those that come later.
        self.described = {words[place + (words[place] == "final")] for place in begins if place + 1 < len(words)}

    def refuse(self, position: int, expected: str) -> NoReturn:
        raise OptionError(
            "option 'kryoTypes' is not valid",
            expected=expected,
            found=self.text[position : position + 80] or "its end",
            remedy="describe classes as com.shop.Money(cents LONG, cur STRING); com.shop.Status ENUM(NEW, PAID)",
        )

    def fail(self, expected: str) -> NoReturn:
        self.refuse(self.tokens[self.place][1] if self.place < len(self.tokens) else len(self.text), expected)

    @property
    def token(self) -> str:
        return self.tokens[self.place][0] if self.place < len(self.tokens) else ""

    def accept(self, token: str) -> bool:
        if self.token != token:
            return False
        self.place += 1
        return True

    def expect(self, token: str) -> None:
        if not self.accept(token):
            self.fail(repr(token))

    def name(self, what: str) -> str:
        word = self.token
        if not word or word in "<>(),;?[]" or word[0] == "." or word[-1] == ".":
            self.fail(what)
        self.place += 1
        return word

    def listed(self, item: Callable[[], None]) -> None:
        """Parse items in parentheses, with commas between them."""
        self.expect("(")
        if self.accept(")"):
            return
        item()
        while self.accept(","):
            item()
        self.expect(")")

    def parse(self) -> WordClasses:
        classes: dict[str, JavaClass] = {}
        variants: set[str] = set()
        while self.token:
            self.one(classes, variants)
            if self.token and not self.accept(";"):
                self.fail("';' and the next class")
        return WordClasses(classes, frozenset(variants))

    def one(self, classes: dict[str, JavaClass], variants: set[str]) -> None:
        """Parse a class."""
        flags = PUBLIC | (FINAL if self.accept("final") else 0)
        name = self.name("the name of a class")
        if self.accept("VARIANT"):
            variants.add(name)
            return
        if name in classes:
            self.place -= 1
            self.fail("a class that was not described before")
        if self.accept("ENUM"):
            classes[name] = self.enum(name)
            return
        above = ClassType(self.name("the name of a superclass")) if self.accept("extends") else OBJECT
        fields: list[JavaField] = []

        def one_field() -> None:
            field_name = self.name("the name of a field")
            kind = self.type(0)
            fields.append(JavaField(field_name, 0, kind, kind))

        self.listed(one_field)
        classes[name] = JavaClass(name, flags, ClassSignature((), above, ()), above.name, tuple(fields), ())

    def enum(self, name: str) -> JavaClass:
        kind = ClassType(name)
        constants: list[JavaField] = []

        def one_constant() -> None:
            constants.append(JavaField(self.name("a constant"), PUBLIC | STATIC | FINAL | ENUM, kind, kind))

        self.listed(one_constant)
        signature = ClassSignature((), ClassType("java.lang.Enum", (kind,)), ())
        return JavaClass(name, PUBLIC | FINAL | ENUM, signature, "java.lang.Enum", tuple(constants), ())

    def type(self, depth: int) -> JavaType:
        """Parse the type of a field."""
        if depth > MAX_WORDS_DEPTH:
            self.fail(f"types nested at most {MAX_WORDS_DEPTH} deep")
        if self.accept("?"):
            return Wildcard()
        kind = self.plain(self.name("a type"), depth)
        while self.accept("[]"):
            kind = ArrayType(kind)
        return kind

    def plain(self, word: str, depth: int) -> JavaType:
        """Parse a type without ``[]``, after its first word."""
        arguments: list[JavaType] = []
        if self.accept("<"):
            arguments.append(self.type(depth + 1))
            while self.accept(","):
                arguments.append(self.type(depth + 1))
            self.expect(">")
        lower = word.lower()
        if word == "NULLABLE" and len(arguments) == 1:
            return _boxed(arguments[0])
        if lower in _PRIMITIVES and word in (lower, word.upper()) and not arguments:
            return PrimitiveType(lower)
        boxed = tuple(_boxed(argument) for argument in arguments)
        if word in self.described:
            return ClassType(word, boxed)
        return ClassType(_WORDS.get(word) or SIMPLE.get(word, word), boxed)


def _boxed(kind: JavaType) -> JavaType:
    """Return the box of a primitive type, because type arguments cannot be primitive."""
    if not isinstance(kind, PrimitiveType):
        return kind
    return ClassType("java.lang." + _BOXES.get(kind.name, kind.name.capitalize()))
