import json
from itertools import pairwise

import pytest
from helpers.traces import write

from measure.errors import UserError
from measure.traces import json_stream
from measure.traces.json_stream import opened

EVENTS = [{"ts": 12.5, "dur": 3}, {"ts": 1e3}]
DOCUMENT = {"schemaVersion": 1, "name": 'a "b" \\ é', "traceEvents": EVENTS, "last": [[]]}
MEMBERS = [
    ("schemaVersion", 1), ("name", 'a "b" \\ é'), *(("traceEvents", each) for each in EVENTS), ("last", [[]])
]  # fmt: skip


def members(path):
    with opened(path) as stream:
        return list(stream.members())


@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 2**20])
@pytest.mark.parametrize(("name", "indent"), [("t.json", None), ("t.json", 1), ("t.json.gz", None)])
def test_values_may_lie_across_chunks(tmp_path, monkeypatch, chunk, name, indent):
    monkeypatch.setattr(json_stream, "CHUNK", chunk)
    assert members(write(tmp_path / name, json.dumps(DOCUMENT, indent=indent, ensure_ascii=False))) == MEMBERS


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("{}", []),
        ('{"traceEvents": []}', []),
        ("[]", []),
        ('[{"ph": "X"}, {"ph": "M"}]', [("traceEvents", {"ph": "X"}), ("traceEvents", {"ph": "M"})]),
        ('\ufeff{"a": 1}', [("a", 1)]),  # a mark of byte order, as Windows writes it
        ('{"a": "line\nline"}', [("a", "line\nline")]),  # Kineto writes control characters as they are
        ('{"a":12345678}', [("a", 12345678)]),  # goes on after the first chunk
        # Kineto writes Windows' paths as they are.
        (r'{"a": "C:\Users\me\\x", "b": "D:\u\"\u00e9"}', [("a", r"C:\Users\me\x"), ("b", 'D:\\u"é')]),
        ('{"a": ' + "9" * 5000 + ', "b": 1}', [("a", float("inf")), ("b", 1)]),  # Python refuses so long a number
    ],
)
def test_other_documents(tmp_path, monkeypatch, text, found):
    monkeypatch.setattr(json_stream, "CHUNK", 6)
    assert members(write(tmp_path / "t.json", text)) == found


def test_a_cut_off_document_is_named(tmp_path):
    text = json.dumps(DOCUMENT)
    for length in range(1, len(text)):
        with pytest.raises(UserError, match=r"t.json: ends in the middle of the JSON"):
            members(write(tmp_path / "t.json", text[:length]))
    path = write(tmp_path / "t.json.gz", text)
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(UserError, match=r"t.json.gz: the compressed file is damaged or cut off"):
        members(path)


@pytest.mark.parametrize("text", ["hello", "12", '{"a" 1}', '{"a": 1]', '{"a": nul' + "x" * 2**21, "PK\x03\x04"])
def test_other_files_are_named(tmp_path, text):
    with pytest.raises(UserError, match=r"t.json: (malformed JSON|is not JSON|is a zip)"):
        members(write(tmp_path / "t.json", text))
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(UserError, match="cannot be read"):
            members(path)


def test_the_window_stays_small(tmp_path, monkeypatch):
    monkeypatch.setattr(json_stream, "CHUNK", 100)
    path = write(tmp_path / "t.json", json.dumps({"traceEvents": [{"ts": each} for each in range(1000)]}))
    with opened(path) as stream:
        windows = [len(stream._text) for _ in stream.members()]
    assert max(windows) <= 200  # a rest and a chunk of 100 characters each
    assert all(later - earlier <= 100 for earlier, later in pairwise(windows))
