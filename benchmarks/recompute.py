"""Recomputes every number of the paper's abstract and conclusions from the cached CSV, and compares.

    python benchmarks/recompute.py                  # renders the paper of the committed cache, recomputes, compares
    python benchmarks/recompute.py --data DIR       # of another cache
    python benchmarks/recompute.py --html FILE      # compares a paper that was rendered before

It shares no code with the paper: pandas, SciPy and NumPy work on the CSV by the definitions of ``docs/method.md``,
``docs/data.md`` and the chapters (``benchmarks/recomputing/``). The texts are those of the rendered paper. Each
sentence with a digit is taken apart by the template of its kind, and what was recomputed is rounded as it is printed.
A number that no template names counts as wrong, too.

What is resampled, the intervals of distances between models and of errors of predictors, would differ in its digits
with other draws: it takes the same seed and generator as the paper, and is otherwise written anew. Taken as given are
the verdicts in the paper's tables of printed figures, as far as they are judgements: which figure cannot be compared,
and why another differs. Flags of commands are no results.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # however it is started

from recomputing import sentences, text
from recomputing.cache import Cache
from recomputing.effects import Conclusions
from recomputing.printed_figures import PrintedFigures, verdicts
from recomputing.text import ALONE, Held

ROOT = Path(__file__).parents[1]
WIDTH = 72
"""So many characters of a sentence are shown."""


def rendered(data: Path) -> str:
    """Return the paper's HTML. Raises CalledProcessError where it cannot be rendered, having said why."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "report", "--engine", "embedded", "--force", "--formats", "html"]
        subprocess.run([*command, "--data", str(data), "--out", folder], cwd=ROOT, check=True, stdout=sys.stderr)
        return Path(folder, "index.html").read_text("utf-8")


def shortened(text: str) -> str:
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 1]}…"


def numbers(held: Iterable[Held]) -> int:
    """Return how many numbers were recomputed."""
    return sum(len(ALONE.findall(one.printed)) for one in held if one.recomputed and not one.given)


def show(section: str, text: str, held: Sequence[Held]) -> None:
    """Print a line about a sentence, and below it one for each number that does not agree or is taken as given."""
    state = "agrees" if all(one.agrees for one in held) else "DIFFERS"
    print(f"{section:12} {state:8} {numbers(held):3}  {shortened(text)}")
    for one in held:
        if one.given:
            print(f"{'':27}taken as given: {shortened(one.printed)} ({one.recomputed})")
        elif not one.recomputed:
            print(f"{'':27}NOT RECOMPUTED: {shortened(one.printed)}")
        elif not one.agrees:
            print(f"{'':27}printed {one.printed}, recomputed {one.recomputed}")


def verdict(held: Sequence[Held], sentences: int) -> str:
    """Return the last line: how many numbers of how many sentences were recomputed, and what of them agrees."""
    given = sum(one.given for one in held)
    missing = sum(not one.recomputed for one in held)
    wrong = sum(not one.agrees for one in held) - missing
    agreement = f"{wrong} differ" if wrong else "all agree"
    parts = [f"{numbers(held)} numbers in {sentences} sentences recomputed, {agreement}"]
    parts += [f"{missing} NOT RECOMPUTED"] if missing else []
    parts += [f"{given} taken as given"] if given else []
    return "; ".join(parts)


def main(argv: Sequence[str]) -> int:
    """Exit code 0 where all agree, 1 where a number differs or was not recomputed, else that of a failed rendering."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--data", type=Path, default=ROOT / "data", metavar="DIR", help="the cache (default: data)")
    flags.add_argument("--html", type=Path, metavar="FILE", help="the paper as rendered from it (default: render it)")
    asked = flags.parse_args(argv)
    try:
        html = asked.html.read_text("utf-8") if asked.html else rendered(asked.data.resolve())
    except subprocess.CalledProcessError as problem:
        return problem.returncode
    cache = Cache(asked.data)
    printed = PrintedFigures(cache, verdicts(html))
    conclusions = Conclusions(cache, printed.effect)
    kinds, found = sentences.kinds(cache, conclusions, printed), text.sentences(html)
    held = []
    for section, sentence in found:
        held.append(list(kinds.hold(sentence, section)))
        show(section, sentence, held[-1])
    none: list[str] = []
    for told, recomputed in zip_longest(text.topics(html), sentences.order(conclusions), fillvalue=none):
        held.append(list(text.Words(", ".join(recomputed)).hold(", ".join(told))))
        show("In order", ", ".join(told), held[-1])
    every = [one for each in held for one in each]
    print(f"\n{verdict(every, len(found))}")
    return 0 if all(one.agrees for one in every) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
