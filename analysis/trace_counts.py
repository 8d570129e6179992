#!/usr/bin/env python3
"""Counts rows in a selection trace (kvlane-selection-1), apart from the reader in sim/select.

usage: trace_counts.py FILE.kvsel.gz > tests/fixtures/selection/NAME_counts.csv
Columns: layer, step, rows read, prompt rows among them, prompt rows that no earlier step selected.
"""
import gzip
import json
import sys


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def main(path):
    data = gzip.open(path).read()
    at = data.index(b"\n") + 1
    header = json.loads(data[:at])
    seen = {}
    rows = []
    for step in range(header["steps"]):
        for layer in header["layers"]:
            read = prompt = fresh = 0
            for head in range(header["kv_heads"]):
                count, at = varint(data, at)
                token = -1
                for _ in range(count):
                    gap, at = varint(data, at)
                    token += gap + 1
                    read += 1
                    if token < header["prompt_tokens"]:
                        prompt += 1
                        key = (layer, head)
                        if token not in seen.setdefault(key, set()):
                            seen[key].add(token)
                            fresh += 1
            rows.append((layer, step, read, prompt, fresh))
    if at != len(data):
        sys.exit(f"{len(data) - at} bytes left over")
    print(f"# Made by: python3 analysis/trace_counts.py {path}")
    print("layer,step,read,prompt,first_selected")
    for row in sorted(rows):
        print(*row, sep=",")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
