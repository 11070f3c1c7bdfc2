"""What can be seen of a session: its name, its entries, where it stands, what it took."""

from __future__ import annotations

from penstock.agent.session.entries import Entry, Fault, Header
from penstock.agent.session.export import to_html, to_markdown
from penstock.agent.session.ledger import Ledger
from penstock.agent.session.tree import Branch, Tree, spoken, usage
from penstock.messages import Usage


class SessionView:
    """Looks into the *ledger* of a session, and changes nothing."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    @property
    def id(self) -> str:
        """Its name among sessions."""
        return self._ledger.header.id

    @property
    def header(self) -> Header:
        """What the record begins with."""
        return self._ledger.header

    @property
    def title(self) -> str:
        """What it is called; empty if nobody said."""
        return self._ledger.title

    @property
    def cwd(self) -> str:
        """The folder that it is about."""
        return self._ledger.header.cwd

    @property
    def tree(self) -> Tree:
        """All entries, to look at."""
        return self._ledger.tree

    @property
    def entries(self) -> list[Entry]:
        """All entries, in the order in which they were written."""
        return list(self._ledger.tree.entries)

    @property
    def leaf(self) -> str:
        """The id of the entry that the next one comes behind."""
        return self._ledger.leaf

    @property
    def history(self) -> list[Entry]:
        """The entries from the first to the leaf."""
        return self._ledger.tree.path(self._ledger.leaf)

    @property
    def branches(self) -> list[Branch]:
        """Every way through the session to an end."""
        return self._ledger.tree.branches()

    @property
    def spoken(self) -> list[str]:
        """The names of the rules that have spoken on the way to the leaf."""
        return spoken(self.history)

    @property
    def usage(self) -> Usage:
        """What all answers took, on all branches."""
        return usage(self._ledger.tree.entries)

    @property
    def faults(self) -> list[Fault]:
        """The lines of the record that could not be read when it was opened."""
        return list(self._ledger.faults)

    def to_markdown(self, *, whole: bool = False) -> str:
        """Write the way to the leaf for people to read, or the *whole* session."""
        return to_markdown(self.header, self.tree, leaf=self.leaf, whole=whole)

    def to_html(self, *, whole: bool = False) -> str:
        """Write the way to the leaf as a page, or the *whole* session."""
        return to_html(self.header, self.tree, leaf=self.leaf, whole=whole)
