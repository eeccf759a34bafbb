"""Make the fonts of the charts from Liberation Sans 2.1.5: subsets under another name, and their characters' widths.

    pip install fonttools brotli
    python report/charts/fonts/subset.py FOLDER_WITH_LIBERATION_SANS_TTF

The licence reserves the name Liberation, so a changed font needs another. Without kerning a text is as wide as its
characters together, in every program; without hints a font is half as large.
"""

import json
import sys
from pathlib import Path

from fontTools.subset import Options, Subsetter
from fontTools.ttLib import TTFont

FAMILY = "Roofwright Sans"
STYLES = {"Regular": "regular", "Bold": "bold"}
RANGES = (
    (0x20, 0x7E),  # ASCII
    (0xA0, 0x17F),  # Latin-1 and Latin Extended-A
    (0x386, 0x3CE),  # Greek
    (0x2002, 0x203A),  # spaces, dashes, quotation marks, ellipsis, per mille
    (0x2070, 0x209C),  # superscripts and subscripts
    (0x20AC, 0x20AC),  # the euro sign
    (0x2190, 0x21D5),  # arrows
    (0x2200, 0x22C5),  # mathematical operators
)


def main(folder: Path) -> None:
    here = Path(__file__).parent
    widths = {}
    for style, name in STYLES.items():
        font = TTFont(folder / f"LiberationSans-{style}.ttf", recalcTimestamp=False)
        options = Options(hinting=False, layout_features=[], name_IDs=[0, 1, 2, 3, 4, 5, 6, 13, 14])
        options.drop_tables += ["kern", "GPOS", "GSUB", "GDEF", "FFTM"]
        subsetter = Subsetter(options)
        subsetter.populate(unicodes=[code for first, last in RANGES for code in range(first, last + 1)])
        subsetter.subset(font)
        texts = {1: FAMILY, 2: style, 3: f"{FAMILY} {style}", 4: f"{FAMILY} {style}".removesuffix(" Regular")}
        for number, text in (texts | {6: f"RoofwrightSans-{style}"}).items():
            font["name"].setName(text, number, 3, 1, 0x409)
        advances, em = font["hmtx"], font["head"].unitsPerEm
        widths[name] = {
            chr(code): round(advances[glyph][0] / em, 4) for code, glyph in sorted(font.getBestCmap().items())
        }
        font.save(here / f"RoofwrightSans-{style}.ttf")
        font.flavor = "woff2"
        font.save(here / f"RoofwrightSans-{style}.woff2")
    text = json.dumps(widths, ensure_ascii=False, separators=(",", ":"))
    (here / "widths.json").write_text(text.replace('"bold"', '\n"bold"') + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
