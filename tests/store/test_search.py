"""The log is searched by words, in both databases alike."""

from __future__ import annotations

from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool

from penstock.store import MAX_WORDS, RequestQuery, Retention, Store
from penstock.store.engine import parse_url
from penstock.store.maintenance import delete_step
from penstock.store.tables import split_words
from store.databases import ended, rows, started, with_store, written

TEXTS = {
    1: 'qwen3-coder\nwrite_file read_file\n{"path": "tides.md"} High water at 02:14 in Zürich.',
    2: "llama\nsend_mail\nThe weather in Oslo: clear, 4 degrees. It's fine.",
    3: "kimi\n天気はどうですか。東京は晴れです。",
    4: "gemma\nthe upstream refused: quota 'exceeded' & more | OR NOT",
}


SEARCHES = {
    "a word": ("weather", [2]),
    "words in any case": ("WEATHER oslo", [2]),
    "words in any order": ("oslo weather", [2]),
    "the beginning of a word": ("weath", [2]),
    "not the end of a word": ("ather", []),
    "a tool": ("write_file", [1]),
    "the words of a name are in a row": ("file_write", []),
    "an argument": ("tides.md", [1]),
    "a phrase": ('"in oslo"', [2]),
    "a phrase that does not occur": ('"oslo in"', []),
    "a quote that is not closed": ('"oslo', [2]),
    "a model": ("qwen3-coder", [1]),
    "letters with marks": ("zürich", [1]),
    "a script without spaces": ("東京", [3]),
    "characters in a row": ("京東", []),
    "quotes of SQL": ("quota 'exceeded'", [4]),
    "signs only": ("& | ! ( ) * : ^", []),
    "words that are operators are words": ("OR NOT AND", []),
    "operators are not read": ("weather* -oslo", [2]),
    "nothing": ("absent", []),
}


async def test_a_search_finds_requests_by_their_words(url: str) -> None:
    async with with_store(Store(url)) as store:
        for number, text in TEXTS.items():
            store.begin(started(number))
            store.end(ended(number, search=text))
        await written(store, 2 * len(TEXTS))
        for name, (wanted, found) in SEARCHES.items():
            page = await store.requests(RequestQuery(search=wanted))
            expected = [f"req-{number:06}" for number in found]
            assert [row.id for row in page.items] == expected, name


async def test_an_end_that_is_written_again_is_found_once_and_by_its_new_words(url: str) -> None:
    async with with_store(Store(url)) as store:
        store.end(ended(1, search="first words"))
        await written(store, 1)
        store.end(ended(1, search="other words"))
        await written(store, 2)
        counts = [
            len((await store.requests(RequestQuery(search=text))).items)
            for text in ("words", "other", "first")
        ]
        assert counts == [1, 1, 0]


async def test_deleted_requests_are_not_found(url: str) -> None:
    async with with_store(Store(url)) as store:
        store.begin(started(1, created=1.0))
        store.end(ended(1, search="an old tide"))
        await written(store, 2)
        engine = create_engine(parse_url(url), poolclass=NullPool)
        with engine.begin() as connection:
            delete_step(connection, Retention(days=1.0))
        assert rows(url, "SELECT * FROM request_search") == []
        assert (await store.requests(RequestQuery(search="tide"))).items == []


async def test_without_bodies_only_errors_are_found(url: str) -> None:
    async with with_store(Store(url, bodies=False)) as store:
        store.begin(started(1, prompt="What of the tide?"))
        store.end(ended(1, search="the tide", summary="the tide", error_message="quota exceeded"))
        await written(store, 2)
        assert (await store.requests(RequestQuery(search="tide"))).items == []
        (row,) = (await store.requests(RequestQuery(search="quota"))).items
        assert (row.prompt, row.summary) == ("", "")


async def test_without_an_index_words_are_found_all_the_same(sqlite_url: str) -> None:
    async with with_store(Store(sqlite_url)) as store:
        store.end(ended(1, search="the tide is high"))
        await written(store, 1)
        for name in ("added", "removed", "changed"):
            rows(sqlite_url, f"DROP TRIGGER request_search_{name}")
        rows(sqlite_url, "DROP TABLE request_words")
        store.end(ended(2, search="the tide is low"))
        await written(store, 2)
        assert len((await store.requests(RequestQuery(search="tide"))).items) == 2
        (row,) = (await store.requests(RequestQuery(search="tide low"))).items
        assert row.id == "req-000002"


def test_words_are_bounded() -> None:
    assert len(split_words("x" * 10 * MAX_WORDS)) <= MAX_WORDS * 65 // 64 + 1
    assert split_words("a\0b \ud800 c_d") == "a b c d"
