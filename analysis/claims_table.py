#!/usr/bin/env python3
"""The claims of `kvlane paper --format json` (stdin or a file) as a Markdown table.

Both readings of TTST share a row: the gap between tokens 1 and 2, and token 2 from the arrival.
"""

import json
import sys

GAP, ARRIVAL = "gap t2 - t1", "from arrival"


def number(value):
    return "–" if value is None else f"{value:.2f}"


def table(rows):
    merged = {}  # (claim, rest of the reading) -> [paper, ours, from arrival]
    for row in rows:
        reading = row["reading"]
        column = 1
        for word, place in ((GAP, 1), (ARRIVAL, 2)):
            if reading.startswith(word):
                reading, column = reading[len(word):].lstrip(", "), place
        cells = merged.setdefault((row["claim"], reading), [row["paper"], None, None])
        cells[column] = row["ours"]
    lines = ["| claim | reading | paper | ours | ours, TTST from arrival |", "|---|---|--:|--:|--:|"]
    for (claim, reading), (paper, ours, arrival) in merged.items():
        last = "" if arrival is None else number(arrival)
        lines.append(f"| {claim} | {reading} | {number(paper)} | {number(ours)} | {last} |")
    return "\n".join(lines)


def main():
    if len(sys.argv) > 2 or sys.argv[1:] in (["-h"], ["--help"]):
        print(__doc__.strip())
        return 0 if len(sys.argv) == 2 else 2
    try:
        with open(sys.argv[1], encoding="utf-8") if len(sys.argv) == 2 else sys.stdin as file:
            result = json.load(file)
        if result.get("schema") != "kvlane.paper/1":
            raise ValueError("not a kvlane.paper/1 (kvlane paper --format json)")
    except (OSError, ValueError, AttributeError) as error:
        print(f"claims_table.py: {error}", file=sys.stderr)
        return 2
    print(table(result["rows"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
