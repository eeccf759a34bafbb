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
    ("schemaVersion", 1),
    ("name", 'a "b" \\ é'),
    ("traceEvents", {"ts": 12.5, "dur": 3}),
    ("traceEvents", {"ts": 1000.0}),
    ("last", [[]]),
]


def members(path):
    with opened(path) as stream:
        return list(stream.members())


@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 2**20])
@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("name", ["t.json", "t.json.gz"])
def test_values_may_lie_across_chunks(tmp_path, monkeypatch, chunk, indent, name):
    monkeypatch.setattr(json_stream, "CHUNK", chunk)
    assert members(write(tmp_path / name, json.dumps(DOCUMENT, indent=indent, ensure_ascii=False))) == MEMBERS


def test_a_number_at_the_end_of_a_chunk_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(json_stream, "CHUNK", 6)
    assert members(write(tmp_path / "t.json", '{"a":12345678}')) == [("a", 12345678)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("{}", []),
        ('{"traceEvents": []}', []),
        ("[]", []),
        ('[{"ph": "X"}, {"ph": "M"}]', [("traceEvents", {"ph": "X"}), ("traceEvents", {"ph": "M"})]),
        ('\ufeff{"a": 1}', [("a", 1)]),  # a mark of byte order, as Windows writes it
        ('{"a": "line\nline"}', [("a", "line\nline")]),  # Kineto writes control characters as they are
    ],
)
def test_other_documents(tmp_path, text, found):
    assert members(write(tmp_path / "t.json", text)) == found


@pytest.mark.parametrize("length", range(1, len(json.dumps(DOCUMENT))))
def test_a_cut_off_document_is_named(tmp_path, length):
    path = write(tmp_path / "t.json", json.dumps(DOCUMENT)[:length])
    with pytest.raises(UserError, match=r"t.json: ends in the middle of the JSON"):
        members(path)


def test_a_cut_off_compressed_document_is_named(tmp_path):
    path = write(tmp_path / "t.json.gz", json.dumps(DOCUMENT))
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(UserError, match=r"t.json.gz: the compressed file is damaged or cut off"):
        members(path)


@pytest.mark.parametrize("text", ["hello", "12", '{"a" 1}', '{"a": 1]', '{"a": nul' + "x" * 2**21, "PK\x03\x04"])
def test_what_is_no_json_is_named(tmp_path, text):
    with pytest.raises(UserError, match=r"t.json: (malformed JSON|is not JSON|is a zip)"):
        members(write(tmp_path / "t.json", text))


def test_a_missing_file_and_a_folder_are_named(tmp_path):
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(UserError, match="cannot be read"):
            members(path)


def test_the_window_stays_small(tmp_path, monkeypatch):
    monkeypatch.setattr(json_stream, "CHUNK", 100)
    path = write(tmp_path / "t.json", json.dumps({"traceEvents": [{"ts": each} for each in range(10_000)]}))
    with opened(path) as stream:
        windows = [len(stream._text) for _ in stream.members()]
    assert max(windows) <= 200  # a rest and a chunk of 100 characters each
    assert all(later - earlier <= 100 for earlier, later in pairwise(windows))
