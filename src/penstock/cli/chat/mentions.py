"""Files that a prompt names with ``@``: their text or image is sent with the prompt.

The user typed the path, so it may be anywhere on the machine; a model cannot use this. A word that
is not the path of a file stays a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from xml.sax.saxutils import quoteattr

from msgspec import Struct, field

from penstock.agent.tools.results import MAX_IMAGE_BYTES, cut_middle, read_image
from penstock.errors import ToolError
from penstock.messages import Text
from penstock.request import Image, UserContent, UserMessage

MAX_TEXT: Final = 200_000
"""The characters of a file that are sent; of a longer one the middle is omitted."""

MAX_FILES: Final = 20
"""The files that one prompt can name."""

MAX_ENTRIES: Final = 500
"""The entries of a folder that are listed."""

_MENTION: Final = re.compile(r'(?:(?<=\s)|^)@(?:"([^"\n]+)"|([^\s"]+))')
_FILE: Final = re.compile(r"<file path=(\"[^\"\n]*\"|'[^'\n]*')>\n")
_PUNCTUATION: Final = ".,;:!?)]}'\""


class MentionedFiles(Struct):
    """A prompt with the files that it names, and *warnings* about those that are not sent."""

    message: UserMessage
    warnings: list[str] = field(default_factory=list)


def read_mentions(prompt: str, folder: Path) -> MentionedFiles:
    """Read the files that *prompt* names; relative paths are below *folder*."""
    blocks: list[UserContent] = [Text(prompt)]
    warnings: list[str] = []
    seen: set[Path] = set()
    for name, path in _find_paths(prompt, folder):
        if path in seen:
            continue
        if len(seen) == MAX_FILES:
            warnings.append(f"only the first {MAX_FILES} files are sent")
            break
        seen.add(path)
        try:
            blocks.append(_read_block(name, path))
        except ToolError as exc:
            warnings.append(f"{name} is not sent: {exc}")
        except OSError as exc:
            warnings.append(f"{name} is not sent: {exc.strerror or exc}")
    return MentionedFiles(UserMessage(blocks), warnings)


def add_input(mentioned: MentionedFiles, data: bytes) -> None:
    """Add *data* from stdin to the prompt, as a file; nothing if it is empty."""
    if not data:
        return
    try:
        mentioned.message.content.append(_read_data("stdin", data))
    except ToolError as exc:
        mentioned.warnings.append(f"stdin is not sent: {exc}")


def _find_paths(prompt: str, folder: Path) -> Iterator[tuple[str, Path]]:
    for mention in _MENTION.finditer(prompt):
        name = mention[1] or mention[2]
        # A path may end a sentence.
        for candidate in dict.fromkeys((name, name.rstrip(_PUNCTUATION))):
            path = _locate(candidate, folder)
            if path is not None:
                yield candidate, path
                break


def _locate(name: str, folder: Path) -> Path | None:
    try:
        path = Path(folder, Path(name).expanduser()) if name else folder / "\0"
        return path.resolve() if path.is_file() or path.is_dir() else None
    except (OSError, RuntimeError, ValueError):  # too long, no home folder, a null character
        return None


def _read_block(name: str, path: Path) -> Text | Image:
    if path.is_dir():
        names = sorted(one.name + "/" * one.is_dir() for one in path.iterdir())
        more = [f"(and {len(names) - MAX_ENTRIES} more)"] if len(names) > MAX_ENTRIES else []
        return _make_file(name, "\n".join(names[:MAX_ENTRIES] + more))
    with path.open("rb") as file:
        return _read_data(name, file.read(max(MAX_IMAGE_BYTES, 4 * MAX_TEXT) + 1))


def _read_data(name: str, data: bytes) -> Text | Image:
    if (image := read_image(data)) is not None:
        return image
    if b"\0" in data:
        raise ToolError("it is neither text nor an image (PNG, JPEG, GIF or WebP)")
    return _make_file(name, cut_middle(data.decode("utf-8", "replace"), MAX_TEXT))


def _make_file(name: str, text: str) -> Text:
    end = "" if text.endswith("\n") else "\n"
    return Text(f"<file path={quoteattr(name)}>\n{text}{end}</file>")


def prompt_text(message: UserMessage) -> str:
    """Return the text that the user typed, without the files."""
    typed = [block for block in message.content if isinstance(block, Text)]
    return "\n".join(block.text for block in typed if not _FILE.match(block.text))


def describe_files(message: UserMessage) -> list[str]:
    """Return a line for each file and image of *message*."""
    lines: list[str] = []
    for block in message.content:
        if isinstance(block, Image):
            size = len(block.data) * 3 // 4 - block.data.count("=", -2)
            lines.append(f"{block.media_type}, {size:,} bytes" if block.data else block.url)
        elif isinstance(block, Text) and (file := _FILE.match(block.text)):
            count = block.text.count("\n") - 1
            lines.append(f"{file[1][1:-1]}, {count} line{'' if count == 1 else 's'}")
    return lines
