"""What models break, and what becomes of it: one line a case, each with a sentence for its name."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from penstock.values.rjson.notes import EXAMPLE_LENGTH


class Case(NamedTuple):
    """A broken text, the value that is read in it, and what is said about it."""

    why: str
    text: str
    value: Any
    repairs: list[str]


STRUCTURE = [
    Case("one missing brace", '{"a": 1', {"a": 1}, ["closed an open bracket"]),
    Case(
        "missing closers at every depth",
        '{"a": [1, {"b": [2',
        {"a": [1, {"b": [2]}]},
        ["closed 4 open brackets"],
    ),
    Case(
        "a list left open inside an object",
        '{"a": [1, 2, "b": 3}',
        {"a": [1, 2], "b": 3},
        ["closed an open bracket"],
    ),
    Case(
        "an object left open inside a list",
        '[{"a": 1, {"b": 2}]',
        [{"a": 1}, {"b": 2}],
        ["closed an open bracket", "added a missing comma"],
    ),
    Case(
        "a closer that closes two levels",
        '{"a": {"b": [1, {"c": 2]}}',
        {"a": {"b": [1, {"c": 2}]}},
        ["closed an open bracket"],
    ),
    Case(
        "a closer of the wrong kind",
        '{"a": [1, 2}, "b": 3}',
        {"a": [1, 2], "b": 3},
        ["replaced a wrong closing bracket"],
    ),
    Case(
        "a closer that has no opener of its kind",
        '{"a": {"b": 1]}',
        {"a": {"b": 1}},
        ["replaced a wrong closing bracket"],
    ),
    Case(
        "a root that is closed too early",
        '{"a": {"b": 1}}, "c": 2}',
        {"a": {"b": 1}, "c": 2},
        ["dropped a closing bracket that came too early"],
    ),
    Case(
        "doubled braces",
        '{{"a": 1}}',
        {"a": 1},
        ["dropped a doubled brace", "dropped the text after the value"],
    ),
    Case("missing commas between numbers", "[1 2 3]", [1, 2, 3], ["added 2 missing commas"]),
    Case("missing commas between strings", '["a" "b"]', ["a", "b"], ["added a missing comma"]),
    Case(
        "missing commas between members",
        '{"a": "x" "b": 2\n"c": 3}',
        {"a": "x", "b": 2, "c": 3},
        ["added 2 missing commas"],
    ),
    Case(
        "missing commas between containers",
        '[{"a": 1} {"b": 2}[3]]',
        [{"a": 1}, {"b": 2}, [3]],
        ["added 2 missing commas"],
    ),
    Case("doubled commas", '{"a": 1,, "b": 2}', {"a": 1, "b": 2}, ["dropped an extra comma"]),
    Case("commas alone", "[,,1,,]", [1], ["dropped 3 extra commas", "dropped a trailing comma"]),
    Case("a semicolon", '{"a": "x"; "b": 2}', {"a": "x", "b": 2}, ["read a semicolon as a comma"]),
    Case("a missing colon", '{"a" 1}', {"a": 1}, ["added the colon after the key `a`"]),
    Case("a doubled colon", '{"a":: 1}', {"a": 1}, ["dropped an extra colon"]),
    Case(
        "equals signs and arrows",
        '{"a" = 1, b => 2}',
        {"a": 1, "b": 2},
        ["read 2 equals signs as colons", "quoted the key `b`"],
    ),
    Case(
        "a list that was meant to be an object",
        '{"x": ["a": 1, "b": 2]}',
        {"x": {"a": 1, "b": 2}},
        ["read a list of keys and values as an object", "replaced a wrong closing bracket"],
    ),
    Case(
        "a key without a value",
        '{"a": 1, "b":, "c"}',
        {"a": 1},
        ["dropped 2 keys without a value, `b` first"],
    ),
    Case(
        "a value without a key",
        '{"a": 1, [2], : 3}',
        {"a": 1, "": 3},
        [
            "kept 2 values without a key under the empty key",
            "took the last value of the repeated key ``",
        ],
    ),
    Case(
        "numbers and literals as keys",
        "{1: 2, true: 3}",
        {"1": 2, "true": 3},
        ["quoted 2 keys, `1` first"],
    ),
    Case(
        "a repeated key",
        '{"a": 1, "b": 2, "a": 3}',
        {"a": 3, "b": 2},
        ["took the last value of the repeated key `a`"],
    ),
    Case(
        "a word out of place",
        '{"a": 1, and "b": 2}',
        {"a": 1, "b": 2},
        ["dropped `and`"],
    ),
    Case(
        "white space of other alphabets",
        '{"a":\u00a01,\u3000"b": 2',
        {"a": 1, "b": 2},
        ["skipped unusual white space in 2 places", "closed an open bracket"],
    ),
    Case(
        "comments in broken text",
        '// c\n{"a": 1 /* one */ "b": 2 # two\n',
        {"a": 1, "b": 2},
        ["dropped 3 comments", "added a missing comma", "closed an open bracket"],
    ),
    Case(
        "a comment left open",
        '{"a": 1/* x',
        {"a": 1},
        ["dropped a comment", "closed an open bracket"],
    ),
]

STRINGS = [
    Case(
        "inner quotes",
        '{"a": "say "hi" now", "b": 1}',
        {"a": 'say "hi" now', "b": 1},
        ["kept 2 unescaped quotes in strings"],
    ),
    Case(
        "inner quotes before commas",
        '{"q": "He said "yes", and "no", then left", "n": 5}',
        {"q": 'He said "yes", and "no", then left', "n": 5},
        ["kept 4 unescaped quotes in strings"],
    ),
    Case(
        "a call in code",
        '{"content": "print("Hello, World!")\\n", "path": "a.py"}',
        {"content": 'print("Hello, World!")\n', "path": "a.py"},
        ["kept 2 unescaped quotes in strings"],
    ),
    Case(
        "brackets in code",
        '{"x": {"code": "a = ["b", "c"]; log("}")", "n": 1}}',
        {"x": {"code": 'a = ["b", "c"]; log("}")', "n": 1}},
        ["kept 6 unescaped quotes in strings"],
    ),
    Case(
        "an object in code",
        '{"code": "{"a": 1, "b": "y"}"}',
        {"code": '{"a": 1, "b": "y"}'},
        ["kept 6 unescaped quotes in strings"],
    ),
    Case(
        "an object of strings in code",
        '{"arguments": "{"a": "b", "c": 1}", "name": "f"}',
        {"arguments": '{"a": "b", "c": 1}', "name": "f"},
        ["kept 6 unescaped quotes in strings"],
    ),
    Case(
        "a JSON file over lines",
        '{"content": "{\n  "name": "x",\n  "version": "1.0"\n}\n", "path": "package.json"}',
        {"content": '{\n  "name": "x",\n  "version": "1.0"\n}\n', "path": "package.json"},
        ["kept 8 unescaped quotes in strings", "kept raw control characters in a string"],
    ),
    Case(
        "a list of strings in code, and more code behind it",
        '{"code": "a = ["x", "y"]\nb = {k: "z", l: "w"};\nlog(b["k"])\n"}',
        {"code": 'a = ["x", "y"]\nb = {k: "z", l: "w"};\nlog(b["k"])\n'},
        ["kept 10 unescaped quotes in strings", "kept raw control characters in a string"],
    ),
    Case(
        "code that leaves its brackets open",
        '{"edits": [{"old": "x = {"a": "b",", "new": "f({"}, {"old": "}", "new": "]"}]}',
        {"edits": [{"old": 'x = {"a": "b",', "new": "f({"}, {"old": "}", "new": "]"}]},
        ["kept 4 unescaped quotes in strings"],
    ),
    Case(
        "a bracket in prose that nothing closes",
        '["sad :( said "x", "y"]',
        ['sad :( said "x', "y"],
        ["kept an unescaped quote in a string"],
    ),
    Case(
        "code that the end of the text cuts",
        '{"code": "d = {\n"a": "x",\n"b": "y',
        {"code": 'd = {\n"a": "x",\n"b": "y'},
        [
            "closed an open string",
            "kept raw control characters in a string",
            "closed an open bracket",
        ],
    ),
    Case(
        "code that closes brackets it never opened",
        '{"path": "a.py", "content": "  "a": "b"\n}\nprint("x")\n"}',
        {"path": "a.py", "content": '  "a": "b"\n}\nprint("x")\n'},
        ["kept 6 unescaped quotes in strings", "kept raw control characters in a string"],
    ),
    Case(
        "a module that begins with its docstring",
        '{"content": """"Say it."""\n\nimport re\n", "n": 1}',
        {"content": '"""Say it."""\n\nimport re\n', "n": 1},
        ["kept 6 unescaped quotes in strings", "kept raw control characters in a string"],
    ),
    Case(
        "inner quotes before another value",
        '{"a": "say "hi" now"}\n{"b": "c"}',
        [{"a": 'say "hi" now'}, {"b": "c"}],
        ["kept 2 unescaped quotes in strings", "made a list of 2 values in a row"],
    ),
    Case(
        "code that the end of the text cuts behind a quote",
        '{"code": "d = {"a": 1, "b": "y"',
        {"code": 'd = {"a": 1, "b": "y"'},
        ["closed an open string", "closed an open bracket"],
    ),
    Case(
        "a style sheet",
        '{"css": "content: "";\n  color: red }\n", "n": 1}',
        {"css": 'content: "";\n  color: red }\n', "n": 1},
        ["kept 2 unescaped quotes in strings", "kept raw control characters in a string"],
    ),
    Case(
        "prose behind a string whose bracket is missing",
        '{"a": 1, "b": "c"\n\nLet me know!',
        {"a": 1, "b": "c"},
        ["dropped 3 words out of place, `Let` first", "closed an open bracket"],
    ),
    Case(
        "an inch",
        '{"text": "5" pipe", "n": 1}',
        {"text": '5" pipe', "n": 1},
        ["kept an unescaped quote in a string"],
    ),
    Case(
        "an inner quote in a list",
        '["a "b" c", "d"]',
        ['a "b" c', "d"],
        ["kept 2 unescaped quotes in strings"],
    ),
    Case(
        "an inner quote in a key",
        '{"a"b": 1,}',
        {'a"b': 1},
        ["kept an unescaped quote in a string", "dropped a trailing comma"],
    ),
    Case(
        "a missing closing quote",
        '{"a": "x, "b": "y"}',
        {"a": "x", "b": "y"},
        ["added a missing closing quote"],
    ),
    Case(
        "a missing closing quote at the end of a line",
        '{"a": "x\n  "b": 1\n}',
        {"a": "x", "b": 1},
        ["added a missing closing quote", "added a missing comma"],
    ),
    Case(
        "missing opening quotes",
        '{a": x, b": New York", "c": 1, d": [y"]}',
        {"a": "x", "b": "New York", "c": 1, "d": ["y"]},
        [
            "added 5 missing opening quotes",
            "quoted 3 keys, `a` first",
            "read 2 bare words as strings, `x` first",
            "quoted the text `New York`",
        ],
    ),
    Case(
        "raw new lines and tabs",
        '{"code": "if x:\n\ty()\n", "z": [1}',
        {"code": "if x:\n\ty()\n", "z": [1]},
        ["kept raw control characters in a string", "closed an open bracket"],
    ),
    Case(
        "patterns",
        '{"re": "\\d+\\.\\w*\\s", "to": "\\$1"}',
        {"re": "\\d+\\.\\w*\\s", "to": "\\$1"},
        ["kept the backslashes of 2 strings with bad escapes, `\\d` first"],
    ),
    Case(
        "word borders and slashes in a pattern",
        '{"re": "\\b\\d+\\/\\w\\f\\b", "tex": "\\alpha\\beta\\frac12\\n"}',
        {"re": "\\b\\d+\\/\\w\\f\\b", "tex": "\\alpha\\beta\\frac12\n"},
        ["kept the backslashes of 2 strings with bad escapes, `\\d` first"],
    ),
    Case(
        "good and bad escapes in one string",
        '["\\d\\n\\\\d\\"\\u0041\\u12"]',
        ['\\d\n\\d"A\\u12'],
        ["kept the backslash of `\\d`, which is not an escape"],
    ),
    Case(
        "a Windows path",
        '{"p": "C:\\Users\\new\\temp.txt"}',
        {"p": "C:\\Users\\new\\temp.txt"},
        ["kept the backslashes of the path `C:\\Users\\new\\temp.txt`"],
    ),
    Case(
        "a Windows path that is half escaped",
        '{"p": "C:\\Users\\\\new"}',
        {"p": "C:\\Users\\new"},
        ["kept the backslashes of the path `C:\\Users\\\\new`"],
    ),
    Case(
        "a network path",
        '["\\\\server\\share\\new"]',
        ["\\\\server\\share\\new"],
        ["kept the backslashes of the path `\\\\server\\share\\new`"],
    ),
    Case(
        "a path whose last backslash hides the quote",
        '{"p": "C:\\dir\\", "b": 1}',
        {"p": "C:\\dir\\", "b": 1},
        ["kept the backslashes of the path `C:\\dir\\`"],
    ),
    Case(
        "single quotes with apostrophes",
        "{'it': 'don't stop', 'x': 'the boys' toys'}",
        {"it": "don't stop", "x": "the boys' toys"},
        ["read 4 strings in single quotes", "kept 2 unescaped quotes in strings"],
    ),
    Case(
        "smart quotes, one closed by a straight one",
        '{“a”: “b", "c": 1,,}',
        {"a": "b", "c": 1},
        [
            "read 2 strings in smart quotes",
            "closed a string with another kind of quote",
            "dropped an extra comma",
            "dropped a trailing comma",
        ],
    ),
    Case(
        "backticks over lines",
        "{`a`: `x\n`, b: `y`}",
        {"a": "x\n", "b": "y"},
        [
            "read 3 strings in backticks",
            "kept raw control characters in a string",
            "quoted the key `b`",
        ],
    ),
    Case(
        "triple quotes",
        '{"code": """a = "b"\n""", "n": 1}',
        {"code": 'a = "b"\n', "n": 1},
        ["read a string in triple quotes", "kept raw control characters in a string"],
    ),
]

WORDS = [
    Case(
        "the words of Python and JavaScript",
        '{"a": True, "b": None, "c": undefined, "d": NaN',
        {"a": True, "b": None, "c": "undefined", "d": "NaN"},
        [
            "read 2 of Python's literals, `True` first",
            "read 2 bare words as strings, `undefined` first",
            "closed an open bracket",
        ],
    ),
    Case(
        "hexadecimal and loose numbers",
        "[0x1F, -0xff, .5, +1, 007",
        [31, -255, 0.5, 1, 7],
        ["read 5 odd numbers, `0x1F` first", "closed an open bracket"],
    ),
    Case(
        "numbers with units, and versions",
        "[12px, 1.2.3, 12 px, 10%",
        ["12px", "1.2.3", "12 px", "10%"],
        [
            "read 3 bare words as strings, `12px` first",
            "quoted the text `12 px`",
            "closed an open bracket",
        ],
    ),
    Case(
        "text without quotes",
        '{"city": New York, "url": http://a.b/c?d=e#f, "it": don\'t}',
        {"city": "New York", "url": "http://a.b/c?d=e#f", "it": "don't"},
        [
            "quoted the text `New York`",
            "read 2 bare words as strings, `http://a.b/c?d=e#f` first",
        ],
    ),
    Case(
        "an integer of too many digits",
        "[" + "1" * 5000 + "]",
        ["1" * 5000],
        [f"read the bare word `{'1' * EXAMPLE_LENGTH}…` as a string"],
    ),
]

CUT = [
    ("a string", '{"a": "xy', {"a": "xy"}),
    ("an escape", '["x\\', ["x"]),
    ("a hex escape", '["x\\u12', ["x"]),
    ("half a surrogate pair", '["x\\ud83d', ["x"]),
    ("half a surrogate pair and the next escape", '["x\\ud83d\\ude', ["x"]),
    ("an escaped backslash", '["x\\\\', ["x\\"]),
    ("a key", '{"a": 1, "bc', {"a": 1}),
    ("a key before its colon", '{"a": 1, "bc"', {"a": 1}),
    ("a key after its colon", '{"a": 1, "bc":', {"a": 1}),
    ("a literal", "[true, fal", [True, False]),
    ("a literal of Python", "{'a': Non", {"a": None}),
    ("a number before its exponent", "[1.5e", [1.5]),
    ("a number inside its exponent", "[15e-", [15]),
    ("a lone minus", '{"a": 1, "b": -', {"a": 1}),
    ("a comma", "[1,", [1]),
    ("a row of literals and a number with a point", "[[null, null, 0.0,", [[None, None, 0.0]]),
    ("a row of literals before a string", '[true, None, 1., "a"', [True, None, 1.0, "a"]),
    ("a key that ends with a colon", '{"a:"', {}),
    ("a key that is a colon", '{":"', {}),
    ("an opener", '{"a": [', {"a": []}),
    ("the root string", '"ab', "ab"),
    ("the root number", "12e", 12),
]

AROUND = [
    Case(
        "prose around the value",
        'Sure! Here it is: {"a": 1} Anything else?',
        {"a": 1},
        ["dropped the text before the value", "dropped the text after the value"],
    ),
    Case(
        "a footnote before the value",
        'As [1] says, use {"a": 1}.',
        {"a": 1},
        ["dropped the text before the value", "dropped the text after the value"],
    ),
    Case(
        "a list after a colon",
        'The numbers are: [1, 2, {"a": 3}]',
        [1, 2, {"a": 3}],
        ["dropped the text before the value"],
    ),
    Case("a log level", '[INFO] {"a": 1}', {"a": 1}, ["dropped the text before the value"]),
    Case(
        "a code fence",
        'Use {this}:\n```json\n{"a": [1, 2]}\n```\nDone.',
        {"a": [1, 2]},
        ["took the value out of a code fence"],
    ),
    Case(
        "a code fence that ends an open value",
        '```\n{"a": [1, "x"\n```\nand\n```\nmore\n```',
        {"a": [1, "x"]},
        [
            "took the value out of a code fence",
            "closed 2 open brackets",
            "dropped the text after the value",
        ],
    ),
    Case(
        "a fence inside a fenced string",
        '```json\n{"md": "a\n```py\nb\n```\n", "c": 1,}\n```',
        {"md": "a\n```py\nb\n```\n", "c": 1},
        [
            "took the value out of a code fence",
            "kept raw control characters in a string",
            "dropped a trailing comma",
        ],
    ),
    Case(
        "a closing tag",
        '{"a": "x"</tool_call>',
        {"a": "x"},
        ["dropped `</tool_call>`", "closed an open bracket"],
    ),
    Case(
        "a function call",
        'done({"a": "x"});',
        {"a": "x"},
        ["dropped the text before the value", "dropped the text after the value"],
    ),
    Case(
        "objects in a row",
        '{"a": 1}{"b": 2}\n{"c": 3}, [4]',
        [{"a": 1}, {"b": 2}, {"c": 3}, [4]],
        ["made a list of 4 values in a row"],
    ),
    Case(
        "an empty object glued in front",
        '{}{"a": 1}',
        {"a": 1},
        ["dropped an empty object in front of the value"],
    ),
    Case(
        "an empty object on a line of its own",
        '{}\n{"a": 1}',
        [{}, {"a": 1}],
        ["made a list of 2 values in a row"],
    ),
    Case(
        "a string that holds an object",
        '"{\\"a\\": \\"x\\\\n\\"}"',
        {"a": "x\n"},
        ["decoded a string that held JSON"],
    ),
    Case(
        "a string that holds a string that holds an object",
        json.dumps(json.dumps('{"a": 1,}')),
        {"a": 1},
        ["decoded a string that held JSON, 2 times over", "dropped a trailing comma"],
    ),
    Case(
        "an object whose quotes and line breaks are escaped",
        '{\\n  \\"a\\": \\"x\\\\ny\\"\\n}',
        {"a": "x\ny"},
        ["took away one level of escapes"],
    ),
    Case(
        "an object whose line breaks alone are escaped",
        '{\\n  "a": "x\\ny \\\\n \\"z\\"",\\n  "b": 1\\n}',
        {"a": 'x\ny \\n "z"', "b": 1},
        ["read escaped white space between the values", "kept raw control characters in a string"],
    ),
    Case(
        "an object whose quotes are escaped",
        '{\\"a\\": \\"x\\\\ny\\"}',
        {"a": "x\ny"},
        ["took away one level of escapes"],
    ),
    Case(
        "members without braces",
        '"a": 1, "b": [2',
        {"a": 1, "b": [2]},
        ["added the outer braces", "closed 2 open brackets"],
    ),
    Case("a byte order mark", "\ufeff[1]", [1], ["skipped a byte order mark"]),
]
