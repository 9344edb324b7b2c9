"""The tokens of MLIR text, and a cursor over them."""

from __future__ import annotations

import re
from typing import NoReturn

from weft.mlir.errors import StableHLOError, error_at

# Types of tensors and dense constants are one token each: they are most of a module's text, and
# the parts of ``2x3xf32`` are not tokens of their own.
_PATTERN = re.compile(
    r"(?P<space>(?:[ \t\r\n]+|//[^\n]*)+)"
    r"|(?P<tensor>tensor<[^<>{}\n]*(?:<[^<>{}\n]*>[^<>{}\n]*)*>)"
    r'|(?P<dense>dense(?:_resource)?<(?>"[^"]*"|[^<>"]+)*+>)'
    r'|(?P<string>"(?:[^"\\\n]|\\.)*")'
    r"|(?P<value>%[\w$.\-]+(?:\#\d+)?)"
    r'|(?P<symbol>@(?:[\w$.\-]+|"(?:[^"\\\n]|\\.)*"))'
    r"|(?P<label>\^[\w$.\-]+)"
    r"|(?P<alias>\#[A-Za-z_][\w$.]*)"
    r"|(?P<bang>![A-Za-z_][\w$.]*)"
    r"|(?P<arrow>->)"
    r"|(?P<number>-?(?:0x[0-9A-Fa-f]+|\d+(?:\.\d*)?(?:[eE][+-]?\d+)?))"
    r"|(?P<word>[A-Za-z_][\w$.]*)"
    r"|(?P<resources>\{-\#(?:[^#]|\#(?!-\}))*\#-\})"
    r"|(?P<mark>::|[{}()<>\[\],:=?*+|/\-])"
)
END = "end"
OPENING, CLOSING = "([{<", ")]}>"


class Cursor:
    """A place among the tokens of a text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.kinds: list[str] = []
        self.words: list[str] = []
        self.starts: list[int] = []
        self.at = 0
        position, match = 0, _PATTERN.match
        while position < len(text):
            found = match(text, position)
            if found is None:
                raise error_at(text, position, f"{text[position]!r} is not valid MLIR syntax")
            kind = found.lastgroup
            if kind != "space":
                self.kinds.append(str(kind))
                self.words.append(found[0])
                self.starts.append(position)
            position = found.end()
        self.kinds.append(END)
        self.words.append("")
        self.starts.append(len(text))

    @property
    def kind(self) -> str:
        return self.kinds[self.at]

    @property
    def word(self) -> str:
        return self.words[self.at]

    @property
    def position(self) -> int:
        return self.starts[self.at]

    def next_is(self, word: str, ahead: int = 0) -> bool:
        """Whether a token is this one; text in quotes is not."""
        i = self.at + ahead
        return i < len(self.words) and self.words[i] == word

    def take(self) -> str:
        """The token here, which the cursor passes."""
        if self.kinds[self.at] == END:
            self.fail("the text ends here")
        self.at += 1
        return self.words[self.at - 1]

    def accept(self, word: str) -> bool:
        """Pass a token if it is the one here."""
        if self.words[self.at] == word and self.kinds[self.at] != END:
            self.at += 1
            return True
        return False

    def expect(self, word: str) -> None:
        """Pass a token that must be here."""
        if not self.accept(word):
            self.fail(f"expected {word!r}, found {self.found}")

    def expect_kind(self, kind: str, what: str) -> str:
        """The token here, of a kind that must be here."""
        if self.kinds[self.at] != kind:
            self.fail(f"expected {what}, found {self.found}")
        return self.take()

    @property
    def found(self) -> str:
        """The token here, in the words of an error."""
        return repr(self.word[:40]) if self.kind != END else "the end of the text"

    def fail(self, message: str, position: int | None = None) -> NoReturn:
        raise error_at(self.text, self.position if position is None else position, message)

    def error(self, message: str, position: int) -> StableHLOError:
        return error_at(self.text, position, message)

    def skip_balanced(self) -> str:
        """Pass a bracket and all up to its partner; the text between them."""
        stack = [CLOSING[OPENING.index(self.take())]]
        start = self.position
        while stack:
            end = self.starts[self.at]
            word, kind = self.words[self.at], self.kinds[self.at]
            self.take()
            if kind != "mark":
                continue
            if word in OPENING:
                stack.append(CLOSING[OPENING.index(word)])
            elif word in CLOSING:
                if word != stack.pop():
                    self.fail(f"{word!r} closes a bracket of another kind", end)
        return self.text[start:end]

    def skip_location(self) -> None:
        """Pass ``loc(...)`` if it is here."""
        if self.next_is("loc") and self.next_is("(", 1):
            self.take()
            self.skip_balanced()
