"""Event streams and what they mean: the WHATWG rules one by one, and what upstreams do to them.

Each case is a whole stream. The groups follow those of the web platform's own tests for the format
(named in the comments); the streams are ours. `test_sse` reads each case whole, byte by byte and
at every single cut.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.framing import Frame


class Case(NamedTuple):
    id: str
    stream: bytes
    frames: list[Frame]
    last_id: str = ""
    retry: int | None = None


BOM = b"\xef\xbb\xbf"


def texts(*data: str) -> list[Frame]:
    return [Frame(text) for text in data]


def cut(data: str, event: str = "", id: str = "") -> Frame:  # noqa: A002 - the field's name
    return Frame(data, event, id, unfinished=True)


CASES = [
    # bom, bom-2
    Case("one leading mark is dropped", BOM + b"data: a\n\ndata: b\n\n", texts("a", "b")),
    Case(
        "a second mark is part of the field name", BOM * 2 + b"data: a\n\ndata: b\n\n", texts("b")
    ),
    Case("a mark in mid-stream is kept", b"data: a\n\n" + BOM + b"data: b\n\n", texts("a")),
    Case("a mark in data is kept", b"data: " + BOM + b"a\n\n", texts("\ufeffa")),
    Case("a mark at the start of a later line is kept", b"\n" + BOM + b"data: a\n\n", []),
    Case("half a mark is no mark", b"\xef\xbbdata: a\n\ndata: b\n\n", texts("b")),
    Case("half a mark is all there is", b"\xef\xbb", []),
    Case("a mark is all there is", BOM, []),
    Case("a mark before a blank line", BOM + b"\ndata: a\n\n", texts("a")),
    # comments
    Case("a comment between events", b": hi\n\ndata: a\n\n: bye\n\n", texts("a")),
    Case("a comment inside a block", b"data: a\n: hi\ndata: b\n\n", texts("a\nb")),
    Case("a colon alone keeps the line alive", b":\ndata: a\n:\n\n:\n\n", texts("a")),
    Case("a comment that looks like data", b":data: a\n: data: b\n\n", []),
    Case(
        "what a router says while it waits", b": WORKING ON IT\n\n" * 3 + b"data: a\n\n", texts("a")
    ),
    Case("a long comment", b": " + b"x" * 500 + b"\ndata: a\n\n", texts("a")),
    Case("a comment with bytes that are not text", b": \xff\0\xfe\ndata: a\n\n", texts("a")),
    # data-before-final-empty-line: the rule drops such a block, upstreams mean it
    Case("a last block without its blank line", b"data: a\n\ndata: b\n", [Frame("a"), cut("b")]),
    Case("a last line without its end", b"data: a\n\ndata: b", [Frame("a"), cut("b")]),
    Case("a last line cut in its value", b'data: {"text": "Hel', [cut('{"text": "Hel')]),
    Case("a last line cut in its name", b"data: a\n\ndat", texts("a")),
    Case("a last line that is only a name", b"data: a\n\ndata", [Frame("a"), cut("")]),
    Case(
        "a last block with its fields",
        b"id: 7\nevent: e\ndata: a\ndata: b",
        [cut("a\nb", "e", "7")],
    ),
    Case("a last block without data", b"data: a\n\nevent: e\nid: 7\n", texts("a")),
    Case("a last block that ends with CR", b"data: a\r\rdata: b\r", [Frame("a"), cut("b")]),
    Case("a last character cut in half", b"data: caf\xc3", [cut("caf\ufffd")]),
    Case("a retry that the end may have cut", b"retry: 5\n\nretry: 30", [], "", 5),
    Case(
        "a done mark without any line end", b"data: a\n\ndata: [DONE]", [Frame("a"), cut("[DONE]")]
    ),
    # field-data
    Case("data without a colon is empty data", b"data\n\n", texts("")),
    Case("data with nothing behind the colon", b"data:\n\n", texts("")),
    Case("data with only a space", b"data: \n\n", texts("")),
    Case("two empty data lines are one line end", b"data\ndata\n\n", texts("\n")),
    Case("empty data in between", b"data: a\ndata\ndata:\ndata: b\n\n", texts("a\n\n\nb")),
    Case("many data lines are joined by LF", b"data: a\ndata: b\ndata: c\n\n", texts("a\nb\nc")),
    Case("data that ends with an empty line", b"data: a\ndata:\n\n", texts("a\n")),
    Case(
        "data before and behind other fields",
        b"data: a\nid: 1\ndata: b\n\n",
        [Frame("a\nb", "", "1")],
        "1",
    ),
    Case("a done mark without the space", b"data:[DONE]\n\n", texts("[DONE]")),
    Case("data that looks like a field", b"data: data: a\n\n", texts("data: a")),
    # field-event, field-event-empty
    Case("an event name", b"event: ping\ndata: a\n\n", [Frame("a", "ping")]),
    Case("an event name behind the data", b"data: a\nevent: ping\n\n", [Frame("a", "ping")]),
    Case(
        "an event name holds for one block",
        b"event: e\ndata: a\n\ndata: b\n\n",
        [Frame("a", "e"), Frame("b")],
    ),
    Case(
        "an empty event name is no name", b"event:\ndata: a\n\nevent\ndata: b\n\n", texts("a", "b")
    ),
    Case("an empty event name takes one back", b"event: e\nevent: \ndata: a\n\n", texts("a")),
    Case("the last of several event names", b"event: e\nevent: f\ndata: a\n\n", [Frame("a", "f")]),
    Case("an event name with a second space", b"event:  e \ndata: a\n\n", [Frame("a", " e ")]),
    Case("a block without data drops its name", b"event: e\n\ndata: a\n\n", texts("a")),
    Case("an event name that is not ASCII", "event: é\ndata: a\n\n".encode(), [Frame("a", "é")]),
    Case("an event named message", b"event: message\ndata: a\n\n", [Frame("a", "message")]),
    # field-id, id-2, id-3, id-null
    Case(
        "an id stays for later events",
        b"id: 1\ndata: a\n\ndata: b\n\n",
        [Frame("a", "", "1"), Frame("b", "", "1")],
        "1",
    ),
    Case(
        "an empty id resets it",
        b"id: 1\ndata: a\n\nid\ndata: b\n\n",
        [Frame("a", "", "1"), Frame("b")],
    ),
    Case("an empty value resets it too", b"id: 1\n\nid:\n\nid: 2\n\nid: \ndata: a\n\n", texts("a")),
    Case("an id is all there is", b"id: 1\n\n", [], "1"),
    Case("an id in a block without data", b"id: 1\n\ndata: a\n\n", [Frame("a", "", "1")], "1"),
    Case(
        "an id in a block without data or end",
        b"id: 1\ndata: a\n\nid: 2\n",
        [Frame("a", "", "1")],
        "1",
    ),
    Case(
        "an id is not that of a cut block",
        b"id: 1\ndata: a\n\nid: 2\ndata: b\n",
        [Frame("a", "", "1"), cut("b", "", "2")],
        "1",
    ),
    Case("an id with NUL is ignored", b"id: 1\n\nid: 2\0\ndata: a\n\n", [Frame("a", "", "1")], "1"),
    Case("an id that is NUL is ignored", b"id: \0\ndata: a\n\n", texts("a")),
    Case("an id that is not ASCII", "id: …\ndata: a\n\n".encode(), [Frame("a", "", "…")], "…"),
    Case("the last of several ids", b"id: 1\nid: 2\ndata: a\n\n", [Frame("a", "", "2")], "2"),
    # field-parsing, leading-space
    Case(
        "one space behind the colon goes",
        b"data:a\n\ndata: a\n\ndata:  a\n\n",
        texts("a", "a", " a"),
    ),
    Case("a tab behind the colon stays", b"data:\ta\n\ndata: \ta\n\n", texts("\ta", "\ta")),
    Case("a space at the end stays", b"data: a \n\ndata:a\t\n\n", texts("a ", "a\t")),
    Case("the first colon splits", b"data: a: b:c\n\ndata::\n\n", texts("a: b:c", ":")),
    Case("a space before the name is part of it", b" data: a\n\ndata: b\n\n", texts("b")),
    Case("a space before the colon is part of the name", b"data : a\n\ndata: b\n\n", texts("b")),
    Case("a line of one space is not blank", b"data: a\n \ndata: b\n\n", texts("a\nb")),
    Case("a no-break space is no space", "data:\u00a0a\n\n".encode(), texts("\u00a0a")),
    # field-retry, retry-bogus, retry-empty
    Case("a retry", b"retry: 3000\ndata: a\n\n", texts("a"), "", 3000),
    Case("a retry in a block of its own", b"retry: 3000\n\n", [], "", 3000),
    Case("a retry in a block without end", b"retry:3000\n", [], "", 3000),
    Case(
        "a retry that is not digits",
        b"retry: 10\nretry: 1e3\nretry: -1\nretry: +1\nretry: 1.5\n\n",
        [],
        "",
        10,
    ),
    Case("a retry with a unit", b"retry: 10\nretry: 5s\nretry: 5 \nretry:  5\n\n", [], "", 10),
    Case("a retry in digits that are not ASCII", "retry: 10\nretry: ٣\n\n".encode(), [], "", 10),
    Case("a retry without a value", b"retry: 10\nretry:\nretry\n\n", [], "", 10),
    Case("a retry with zeros in front", b"retry: " + b"0" * 4400 + b"12\n\n", [], "", 12),
    Case("a retry of zero", b"retry: 10\nretry: 000\n\n", [], "", 0),
    Case(
        "a retry too long to be a time", b"retry: 10\nretry: " + b"9" * 4400 + b"\n\n", [], "", 10
    ),
    # field-unknown
    Case("unknown fields are ignored", b"datas: a\nfoo\nx: y\ndata: b\n\n", texts("b")),
    Case(
        "the case of a name matters",
        b"DATA: a\nData: b\ndata: c\nEvent: e\nID: 1\nRETRY: 1\n\n",
        texts("c"),
    ),
    Case("a JSON body instead of a stream", b'{"error": {"message": "no"}}', []),
    Case("a web page instead of a stream", b"<html>\n<p>data: a</p>\n\n</html>", []),
    # newlines
    Case("lines end with LF", b"data: a\ndata: b\n\ndata: c\n\n", texts("a\nb", "c")),
    Case("lines end with CRLF", b"data: a\r\ndata: b\r\n\r\ndata: c\r\n\r\n", texts("a\nb", "c")),
    Case("lines end with CR", b"data: a\rdata: b\r\rdata: c\r\r", texts("a\nb", "c")),
    Case(
        "line ends are mixed",
        b"data: a\rdata: b\ndata: c\r\n\ndata: d\n\rdata: e\r\n\r",
        texts("a\nb\nc", "d", "e"),
    ),
    Case("LF then CR is two line ends", b"data: a\n\rdata: b\n\r\n", texts("a", "b")),
    Case("CRLF then LF is two line ends", b"data: a\r\n\ndata: b\r\n\n", texts("a", "b")),
    Case("CRLF then CR is two line ends", b"data: a\r\n\rdata: b\r\n\r", texts("a", "b")),
    Case("CR then CRLF is two line ends", b"data: a\r\r\ndata: b\r\r\n", texts("a", "b")),
    Case(
        "CRLF is one line end",
        b"data: a\r\nid: 1\r\ndata: b\r\n\r\n",
        [Frame("a\nb", "", "1")],
        "1",
    ),
    Case(
        "blank lines before, between and behind",
        b"\n\r\n\rdata: a\n\n\n\n\r\r\ndata: b\n\n\n",
        texts("a", "b"),
    ),
    Case(
        "other separators end no line",
        "data: a\u2028b\u2029c\u0085d\x0be\x0cf\x1cg\n\n".encode(),
        texts("a\u2028b\u2029c\u0085d\x0be\x0cf\x1cg"),
    ),
    # null-character
    Case("NUL in data is kept", b"data: a\0b\ndata:\0\n\n", texts("a\0b\n\0")),
    Case("NUL in an event name is kept", b"event: \0\ndata: a\n\n", [Frame("a", "\0")]),
    Case("NUL in a field name is part of it", b"data\0: a\ndata: b\n\n", texts("b")),
    # utf-8
    Case("characters of two, three and four bytes", "data: é…🙂\n\n".encode(), texts("é…🙂")),
    Case(
        "characters in all values",
        "id: 🙂\nevent: …\ndata: é\n\n".encode(),
        [Frame("é", "…", "🙂")],
        "🙂",
    ),
    Case("bytes that begin no character", b"data: a\x80\xbf\xff\n\n", texts("a\ufffd\ufffd\ufffd")),
    Case(
        "a character cut by the line end",
        b"data: \xf0\x9f\x99\ndata: \x82\n\n",
        texts("\ufffd\n\ufffd"),
    ),
    Case("a character cut by another", b"data: \xe2\x82\xc3\xa9\n\n", texts("\ufffdé")),
    Case("a slash in two bytes", b"data: \xc0\xaf\n\n", texts("\ufffd\ufffd")),
    Case("a null in three bytes", b"data: \xe0\x80\x80\n\n", texts("\ufffd\ufffd\ufffd")),
    Case("half a surrogate pair in bytes", b"data: \xed\xa0\x80\n\n", texts("\ufffd\ufffd\ufffd")),
    Case("a character beyond the last", b"data: \xf4\x90\x80\x80\n\n", texts("\ufffd" * 4)),
    Case("Latin-1 is not guessed", "data: é\n\n".encode("latin-1"), texts("\ufffd")),
    Case("a name with a broken byte is unknown", b"data\xff: a\ndata: b\n\n", texts("b")),
    # what providers send
    Case("nothing at all", b"", []),
    Case("only blank lines", b"\n\r\n\r", []),
    Case(
        "a chat stream",
        b'data: {"choices":[{"delta":{"content":"Hi"}}]}\n\ndata: [DONE]\n\n',
        texts('{"choices":[{"delta":{"content":"Hi"}}]}', "[DONE]"),
    ),
    Case(
        "a stream of named events",
        b'event: ping\ndata: {"type": "ping"}\n\n'
        b'event: message_stop\ndata: {"type": "message_stop"}\n\n',
        [Frame('{"type": "ping"}', "ping"), Frame('{"type": "message_stop"}', "message_stop")],
    ),
    Case(
        "pretty JSON over several lines",
        b'data: {\r\ndata:   "a": 1\r\ndata: }\r\n\r\n',
        texts('{\n  "a": 1\n}'),
    ),
    Case("one line end between events", b"data: a\ndata: b\n", [cut("a\nb")]),
]
