"""`penstock doctor`: probes an upstream and reports how it behaves."""
