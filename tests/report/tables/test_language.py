from helpers.papers import tiny
from helpers.sentences import cells
from helpers.spoken import spoken

from report.analysis.available import Missing
from report.tables import language


def test_phases():
    rows = {tuple(row[:4]): row[4:] for row in cells(language.phases(spoken()))}
    assert rows["gpt2", "decode", "100", "4"][:2] == ["fp32", "250 ms"]
    # Twice 12 layers of 768 numbers of 4 bytes for each of 100 tokens in 4 texts: 29.5 MB
    assert rows["gpt2", "decode", "100", "4"][3:] == ["16.0", "29.5 MB", "2.00 FLOP/B", "40 %"]
    assert rows["gpt2", "prefill", "100", "1"][4] == "–"
    assert isinstance(language.phases(tiny()), Missing)
