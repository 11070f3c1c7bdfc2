"""Every stream that made a gateway lose a call, through penstock to three clients: a table.

``python bench/complaints.py``: the same cases as `tests/apis/test_complaints.py`, for people who
would rather see them than believe them.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from apis.complaints import COMPLAINTS, Complaint
from apis.test_complaints import CLIENTS, answer, assert_expected, message_of
from penstock import apis


def verdict(complaint: Complaint, client: str) -> str:
    """Say what a client of the API gets: what is meant, or what is wrong."""
    events = answer(complaint, [complaint.data])
    encoder = apis.get(client).encoder(model="m")
    data = b"".join(map(encoder.encode, events)) + encoder.finish()
    decoder = apis.get(client).decoder()
    try:
        assert_expected(message_of([*decoder.feed(data), *decoder.finish()]), complaint)
    except AssertionError:
        return "wrong"
    return "unlawful" if apis.check(client, data) else "ok"


def main() -> int:
    """Print the table; tell by the exit code whether all is well."""
    print(f"{'what happens upstream':66} {'upstream':18} {' '.join(f'{c:17}' for c in CLIENTS)}")
    bad = 0
    for complaint in COMPLAINTS:
        verdicts = [verdict(complaint, client) for client in CLIENTS]
        bad += sum(word != "ok" for word in verdicts)
        told = " ".join(f"{word:17}" for word in verdicts)
        print(f"{complaint.name:66} {complaint.upstream:18} {told}")
    print(f"{len(COMPLAINTS)} streams, {len(CLIENTS)} clients, {bad} wrong")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
