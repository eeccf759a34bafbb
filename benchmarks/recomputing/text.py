"""The sentences of the rendered paper, and how a sentence is held against what was recomputed.

A kind of sentence is a template: ``<name>`` stands for what is to be compared, ``{one|another}`` for a choice and
``[...]`` for what may be missing. All numbers have to stand within what is named.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from html.parser import HTMLParser
from typing import Any, NamedTuple, Protocol

from recomputing.statistics import Effect

FIRST_PAGE = "First page"
SECTIONS = {"abstract": "Abstract", "findings": FIRST_PAGE, "sec-conclusions": "Conclusions"}
PARTS = {"p", "li", "td", "th"}
LEFT_OUT = {"cross-reference", "citation", "header-section-number"}
"""The classes of what refers to another place: its numbers are no results."""

VOID = {"br", "img", "wbr"}
"""Elements without an end."""

NUMBER = r"\d+(?:,\d{3})*(?:\.\d+)?"
ALONE = re.compile(rf"(?<![\w.]){NUMBER}(?!\w)")
"""A number that is a word of its own, not part of a name such as bf16 or resnet50."""

NO_END = (
    r"Its |The machine's |Of its peak, |Of what was measured |Of the measured ones |Of what it allows |"
    r"The extremes are |At the most |The measured roofs |Half of them |In the medians |In eager mode the "
    r"smallest |With \S+ the smallest "
)
"""What belongs to the sentence before."""

SENTENCE = re.compile(rf"(?<=[.?!])\s+(?=[A-Z\d])(?!{NO_END})")
PREFIXES = {"p": 1e-12, "n": 1e-9, "µ": 1e-6, "m": 1e-3, "": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}


class _Sections(HTMLParser):
    """Collects the paragraphs and list items of the wanted sections, without what refers elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, str]] = []
        self._depth = 0
        self._section = ""
        self._skipped: list[str] = []
        self._words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        if tag == "section" and (self._section or known.get("id") in SECTIONS):
            self._section, self._depth = self._section or str(known["id"]), self._depth + 1
        if tag in PARTS:
            self._end_part()
        refers = not LEFT_OUT.isdisjoint(str(known.get("class") or "").split())
        if tag not in VOID and (self._skipped or refers or tag in ("script", "style", "figure")):
            self._skipped.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self._skipped and self._skipped[-1] == tag:
            self._skipped.pop()
        elif tag in PARTS or tag.startswith("h") or tag == "section":
            self._end_part(is_heading=tag.startswith("h"))
            if tag == "section" and self._section:
                self._depth -= 1
                self._section = self._section if self._depth else ""

    def handle_data(self, data: str) -> None:
        if self._section and not self._skipped:
            self._words.append(data)

    def _end_part(self, is_heading: bool = False) -> None:
        text = " ".join("".join(self._words).split())
        if text and not is_heading:
            self.found.append((SECTIONS[self._section], text))
        self._words = []


def sentences(html: str) -> list[tuple[str, str]]:
    """Return the sentences of the abstract and the conclusions that hold a digit, each with the name of its section."""
    parser = _Sections()
    parser.feed(html)
    found = []
    for section, text in parser.found:
        plain = text.replace("’", "'").replace("−", "-")
        found += [(section, sentence) for sentence in SENTENCE.split(plain) if re.search(r"\d", sentence)]
    return found


def topics(html: str) -> list[list[str]]:
    """Return what the numbered lists of the first page and of the conclusions are about, in their order."""
    lists = re.findall(r"<ol[ >].*?</ol>", html, re.DOTALL)
    return [found for text in lists if (found := re.findall(r"<strong>(.*?)\.</strong>", text))]


class Held(NamedTuple):
    """A number, or a name, as printed and as recomputed, and whether both agree."""

    printed: str
    recomputed: str
    agrees: bool
    given: bool = False


class Expected(Protocol):
    """What was recomputed of a part of a sentence."""

    def hold(self, text: str) -> Iterator[Held]: ...


def rounds_to(value: float, printed: str) -> bool:
    """Say whether a value rounds to a printed number, at the place of its last digit.

    Zeros at the end of a whole number may be rounded digits: two significant ones are printed at least.
    """
    number = Decimal(printed.replace(",", ""))
    last = int(number.as_tuple().exponent)
    zeros = len(printed) - len(printed.rstrip("0")) if last == 0 and number else 0
    places = range(last, max(last, min(zeros, number.adjusted() - 1)) + 1)
    near = [Decimal(repr(float(value) * (1 + off))) for off in (0, 1e-9, -1e-9)]  # a tie may be one in decimals only
    return any(exact.quantize(Decimal((0, (1,), place)), ROUND_HALF_UP) == number for exact in near for place in places)


@dataclass(frozen=True)
class Words:
    """A text as it has to be printed, numbers included."""

    text: str

    def hold(self, text: str) -> Iterator[Held]:
        yield Held(text, self.text, text == self.text)


@dataclass(frozen=True)
class Quantity:
    """A number with its unit, with a prefix; ``%`` multiplies by 100."""

    value: float
    unit: str = ""

    def hold(self, text: str) -> Iterator[Held]:
        number, _, unit = text.partition(" ")
        prefix = unit.removesuffix(self.unit) if self.unit else ""
        scale = 0.01 if self.unit == "%" else PREFIXES.get(prefix, 0.0)
        sign = -1 if number.startswith("-") else 1
        is_number = re.fullmatch(f"-?{NUMBER}", number) is not None and unit == prefix + self.unit and scale > 0
        agrees = is_number and rounds_to(sign * self.value / scale, number.removeprefix("-"))
        shown = f"{self.value / (scale or 1):.6g} {prefix if scale else ''}{self.unit}".strip()
        yield Held(text, shown, agrees)


@dataclass(frozen=True)
class Factor:
    """An effect with its interval at a confidence: ``3.1 (2.0 to 6.6)``, or without an interval ``3.1``."""

    effect: Effect
    confidence: float

    def hold(self, text: str) -> Iterator[Held]:
        ends = self.effect.ends(self.confidence)
        expected = (self.effect.factor, *(ends or ()))
        match = re.fullmatch(rf"({NUMBER})(?: \(({NUMBER}) to ({NUMBER})\))?", text)
        printed = [number for number in match.groups() if number] if match else []
        if len(printed) == len(expected):
            yield from (
                held for value, number in zip(expected, printed, strict=True) for held in Quantity(value).hold(number)
            )
        else:
            yield Held(text, " ".join(f"{value:.6g}" for value in expected), False)


@dataclass(frozen=True)
class Factors:
    """Effects by batch size: ``3.1 (2.0 to 6.6) at batch size 1 and 4.0 (2.1 to 7.0) at 64``."""

    effects: Mapping[int, Effect]
    confidence: float

    def hold(self, text: str) -> Iterator[Held]:
        sizes = sorted(self.effects)
        parts = re.split(r", (?=\d)| and (?=\d)", text)
        if len(parts) != len(sizes):
            yield Held(text, f"effects at batch sizes {sizes}", False)
            return
        for size, part in zip(sizes, parts, strict=True):
            factor, _, at = part.partition(" at ")
            yield from Factor(self.effects[size], self.confidence).hold(factor)
            yield from Words(str(size)).hold(at.removeprefix("batch size "))


@dataclass(frozen=True)
class Naming:
    """A text of which the numbers and some names are compared: advice, whose other words are not."""

    numbers: Sequence[float]
    names: Sequence[str] = ()

    def hold(self, text: str) -> Iterator[Held]:
        printed = ALONE.findall(text)
        agrees = printed == [f"{number:g}" for number in self.numbers] and all(name in text for name in self.names)
        if printed or not agrees:
            yield Held(text, " ".join(map(str, (*self.names, *self.numbers))), agrees)


@dataclass(frozen=True)
class Given:
    """What is not recomputed, and why; or what was, as a text, from something that is not."""

    why: str
    text: str | None = None

    def hold(self, text: str) -> Iterator[Held]:
        if self.text is not None:
            yield from Words(self.text).hold(text)
        yield Held(text, self.why, True, given=True)


@dataclass(frozen=True)
class Parts:
    """Clauses of one form, divided by semicolons."""

    kinds: "Kinds"
    section: str = ""

    def hold(self, text: str) -> Iterator[Held]:
        for part in text.split("; "):
            yield from self.kinds.hold(part, self.section)


def expected(value: Any) -> Expected:
    """Return what is to be compared: a float as a number, other than what compares itself as words."""
    if isinstance(value, float):
        return Quantity(value)
    return Words(str(value)) if isinstance(value, (str, int)) else value


Recompute = Callable[[dict[str, str]], Mapping[str, Any]]


def compiled(template: str, **groups: str) -> re.Pattern[str]:
    """Return the pattern of a template; ``groups`` are the patterns of what is named, any text without."""
    parts = []
    for token in re.findall(r"<\w+>|[{}|\[\]]|[^<{}|\[\]]+", template):
        if token.startswith("<"):
            name = token[1:-1]
            parts.append(f"(?P<{name}>{groups.get(name, '.+?')})")
        else:
            parts.append({"{": "(?:", "}": ")", "|": "|", "[": "(?:", "]": ")?"}.get(token) or re.escape(token))
    return re.compile("".join(parts), re.IGNORECASE)


class Kinds:
    """Kinds of sentence, each a template with what recomputes its numbers; the first that fits decides."""

    def __init__(self) -> None:
        self._known: list[tuple[re.Pattern[str], Recompute]] = []

    def of(self, *templates: str, **groups: str) -> Callable[[Recompute], Recompute]:
        """Mark the function that gets what a sentence names and returns what it should be, by the same names."""

        def register(function: Recompute) -> Recompute:
            self._known += [(compiled(template, **groups), function) for template in templates]
            return function

        return register

    def hold(self, sentence: str, section: str = "") -> Iterator[Held]:
        """Yield each number of a sentence beside the recomputed one; one that is not, with an empty text.

        The functions find the section in which it stands as ``section``.
        """
        fitting = ((match, function) for pattern, function in self._known if (match := pattern.fullmatch(sentence)))
        match, function = next(fitting, (None, None))
        if match is None or function is None:
            yield Held(sentence, "", False)
            return
        said = {name: text for name, text in match.groupdict().items() if text is not None}
        wanted = function(said | {"section": section})
        spans = [match.span(name) for name in said if name in wanted]
        for number in ALONE.finditer(sentence):
            if not any(start <= number.start() and number.end() <= end for start, end in spans):
                yield Held(number[0], "", False)
        for name, text in said.items():
            if name in wanted:
                yield from expected(wanted[name]).hold(text)
