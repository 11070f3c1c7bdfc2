"""`auto`: calls in any format, recognised from the text as it streams."""

from penstock.formats.auto.syntax import AUTO, AutoCalls, AutoSyntax

__all__ = ["AUTO", "AutoCalls", "AutoSyntax"]
