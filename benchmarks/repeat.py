"""Tests whether two runs of the same cells on the same machine differ by no more than chance.

    python benchmarks/repeat.py
    python benchmarks/repeat.py --models alexnet --batch-sizes 1 2

``python -m measure`` measures twenty cells into one temporary folder and then again into another. Nothing changed in
between, so every cell that ``python -m measure compare`` flags as slower or faster is a false alarm; at most one in
twenty may be. Other flags are those of ``python -m measure`` and choose other cells. Nothing else should run.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # a checkout counts, installed or not


from measure.domain.comparison import FASTER, RUNS, SLOWER, ComparedRow, compare
from measure.verbs.compare import find, report

ROOT = Path(__file__).parents[1]
CELLS = (
    "--device cpu --variants eager --batch-sizes 1 8 --models alexnet resnet18 resnet50 squeezenet1_0 "
    "shufflenet_v2_x1_0 mobilenet_v2 mobilenet_v3_large efficientnet_b0 vit_b_32 googlenet"
)
FLAGGED = 0.05


def measure(data: Path, flags: Sequence[str]) -> None:
    """Measure once. Raises CalledProcessError if that fails, having said why."""
    command = [sys.executable, "-m", "measure", "--sections", "inference", "--data", str(data)]
    subprocess.run([*command, *CELLS.split(), *flags], cwd=ROOT, check=True)


def verdict(rows: Sequence[ComparedRow]) -> str:
    """Say how many cells are flagged, of those with a result in both runs."""
    cells = [row for row in rows if row.table == RUNS and row.ratio is not None]
    flagged = sum(row.change in (SLOWER, FASTER) for row in cells)
    most = int(FLAGGED * len(cells))
    return f"{flagged} of {len(cells)} cells flagged, {'within' if flagged <= most else 'BEYOND'} {most}"


def main(argv: Sequence[str]) -> int:
    """Exit code 0, or that of a run that failed."""
    flags = argparse.ArgumentParser(
        description="Measure the same cells twice, and see how many are flagged as changed.",
        epilog="Further flags are those of python -m measure; the last one of a name counts.",
    )
    _, further = flags.parse_known_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        data = [Path(folder, name) for name in ("a", "b")]
        try:
            for each in data:
                measure(each, further)
        except subprocess.CalledProcessError as problem:
            return problem.returncode
        a, b = find(str(data[0]), str(data[1]), Path(folder))
        rows = compare(a, b)
    print("\n".join(report(a, b, rows)))
    print(f"\n{verdict(rows)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
