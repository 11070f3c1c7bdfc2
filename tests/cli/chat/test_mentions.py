"""Files that a prompt names with @."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from penstock.cli.chat.completion import InputCompleter
from penstock.cli.chat.mentions import MAX_FILES, describe_files, prompt_text, read_mentions
from penstock.messages import Text
from penstock.request import Image

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/tides.py").write_text("high = 6\nlow = 12\n")
    (tmp_path / "my notes.txt").write_text("no end")
    (tmp_path / "pic.png").write_bytes(PNG)
    (tmp_path / "raw.bin").write_bytes(b"a\0b")
    return tmp_path


def test_text_images_and_folders_are_sent_with_the_prompt(folder: Path) -> None:
    prompt = 'Look at @src/tides.py, @pic.png (and @"my notes.txt") in @src.'
    mentions = read_mentions(prompt.replace("(and ", ""), folder)
    said, code, image, notes, listed = mentions.message.content
    assert said == Text(prompt.replace("(and ", ""))
    assert code == Text('<file path="src/tides.py">\nhigh = 6\nlow = 12\n</file>')
    assert image == Image(media_type="image/png", data=base64.b64encode(PNG).decode())
    assert notes == Text('<file path="my notes.txt">\nno end\n</file>')
    assert listed == Text('<file path="src">\ntides.py\n</file>')
    assert not mentions.warnings
    assert prompt_text(mentions.message) == said.text
    assert describe_files(mentions.message) == [
        "src/tides.py, 2 lines", "image/png, 28 bytes", "my notes.txt, 1 line",
        "src, 1 line",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "word", ["me@src", "@nothing", "@", '@"', "@\0", "@" + "x" * 5000, "@~nobody/x"]
)
def test_a_word_that_is_not_a_file_stays_a_word(folder: Path, word: str) -> None:
    mentions = read_mentions(f"ask {word} now", folder)
    assert mentions.message.content == [Text(f"ask {word} now")]
    assert not mentions.warnings


def test_a_file_is_sent_once_and_what_cannot_be_sent_is_reported(folder: Path) -> None:
    mentions = read_mentions("@src/tides.py @./src/tides.py @raw.bin", folder)
    assert len(mentions.message.content) == 2
    assert mentions.warnings == [
        "raw.bin is not sent: it is neither text nor an image (PNG, JPEG, GIF or WebP)"
    ]
    (folder / "large.png").write_bytes(PNG + b"\0" * 4_000_000)
    assert "the image is too large" in read_mentions("@large.png", folder).warnings[0]


def test_the_size_and_the_number_of_files_are_limited(folder: Path) -> None:
    (folder / "long.txt").write_text("x" * 1_000_000)
    block = read_mentions("@long.txt", folder).message.content[1]
    assert isinstance(block, Text)
    assert "characters omitted" in block.text
    assert len(block.text) < 201_000
    for number in range(MAX_FILES + 1):
        (folder / f"f{number}").touch()
    mentions = read_mentions(" ".join(f"@f{n}" for n in range(MAX_FILES + 1)), folder)
    assert len(mentions.message.content) == MAX_FILES + 1
    assert mentions.warnings == [f"only the first {MAX_FILES} files are sent"]


# --- Tab ---


async def models() -> list[str]:
    return ["qwen3:8b", "Qwen3-Coder", "llama"]


async def complete(folder: Path, typed: str) -> list[str]:
    completer = InputCompleter(folder, {"model": "use", "more": ""}, {"model": models})
    found = await completer.complete(typed)
    assert bool(found) <= completer.is_possible(typed)
    return [typed[: len(typed) - one.length] + one.text for one in found]


async def test_commands_and_their_arguments_are_completed(folder: Path) -> None:
    assert await complete(folder, "/mo") == ["/model", "/more"]
    assert await complete(folder, "/model q") == ["/model qwen3:8b"]
    assert await complete(folder, "/model coder") == ["/model Qwen3-Coder"]
    assert await complete(folder, "/more x") == []
    assert await complete(folder, "hello") == []


async def test_files_are_completed_by_path_and_found_by_name(folder: Path) -> None:
    assert await complete(folder, "see @s") == ["see @src/"]
    assert await complete(folder, "see @src/t") == ["see @src/tides.py"]
    assert await complete(folder, "see @TIDE") == ["see @src/tides.py"]
    assert await complete(folder, "see @my") == ['see @"my notes.txt"']
    assert await complete(folder, 'see @"my n') == ['see @"my notes.txt"']
    assert await complete(folder, f"@{folder}/pi") == [f"@{folder}/pic.png"]
    (folder / "\x1b[2J.txt").touch()
    assert all(one.isprintable() for one in await complete(folder, "@"))
