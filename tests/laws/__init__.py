"""The eleven laws of penstock as property checks that any parser, decoder or encoder plugs into.

A check takes a way to make a fresh subject and what to feed it, and fails with the law's name.
`strategies` has the inputs: cuts, markup soup, valid event sequences. A new format, decoder or
encoder is correct when it passes all the checks that apply to its kind:

====  ===========  =========================================================  ==================
law   name         check                                                      applies to
====  ===========  =========================================================  ==================
1     lossless     `check_lossless`                                           text readers
2     chunk-free   `check_chunk_free`, `check_bytes_chunk_free`               readers, decoders
3     monotone     `check_monotone`                                           all that emit events
4     no leak      `check_no_leak`, `check_no_stall`                          text readers
5     linear       `check_linear`                                             everything fed
6     no raise     `check_never_raises`                                       readers, decoders
7     honest ends  `check_honest_end`                                         decoders
8     round trip   `check_round_trip`                                         formats, encoders
9     bounded      `check_bounded`, `check_bounded_holdback`                  decoders, readers
10    valid out    `check_lawful_out`                                         encoders
11    exact        `damage.outcome` is never "corrupted"                      formats
====  ===========  =========================================================  ==================

`check_readings` holds a text reader to laws 1, 2, 3 and 6 at once, with one reading for each way to
cut a text: that is what a suite of vectors uses, and every property test of a format.
"""

from laws.checks import (
    Ending,
    check_bounded,
    check_bounded_holdback,
    check_bytes_chunk_free,
    check_chunk_free,
    check_honest_end,
    check_lawful_out,
    check_linear,
    check_lossless,
    check_monotone,
    check_never_raises,
    check_no_leak,
    check_no_stall,
    check_round_trip,
)
from laws.cutting import chunkings, cut_at, one_by_one, single_cuts
from laws.merging import merged, raw_by_block, without_raw
from laws.readings import check_readings

__all__ = [
    "Ending",
    "check_bounded",
    "check_bounded_holdback",
    "check_bytes_chunk_free",
    "check_chunk_free",
    "check_honest_end",
    "check_lawful_out",
    "check_linear",
    "check_lossless",
    "check_monotone",
    "check_never_raises",
    "check_no_leak",
    "check_no_stall",
    "check_readings",
    "check_round_trip",
    "chunkings",
    "cut_at",
    "merged",
    "one_by_one",
    "raw_by_block",
    "single_cuts",
    "without_raw",
]
