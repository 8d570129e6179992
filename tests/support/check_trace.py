#!/usr/bin/env python3
"""Checks a Chrome/Perfetto trace: valid JSON; every slice and arrow on a named track of a named process;
slices of one track do not overlap; every arrow starts once, ends once, goes forward in time, and each of
its points lies in a slice (also after a viewer has rounded to nanoseconds). Prints a summary.

    check_trace.py TRACE.json [--arrows] [--processes NAME ...]
"""

import argparse
import collections
import json
import sys
from decimal import Decimal


def nanoseconds(us):
    """As Perfetto's importer does: whole nanoseconds, towards zero."""
    return int(us * 1000)


def check(trace, need_arrows, processes):
    problems = []
    events = trace["traceEvents"]
    names = {}
    tracks = {}
    slices = collections.defaultdict(list)
    arrows = collections.defaultdict(list)
    for event in events:
        track = (event["pid"], event.get("tid", 0))
        phase = event["ph"]
        if phase == "M":
            if event["name"] == "process_name":
                names[event["pid"]] = event["args"]["name"]
            elif event["name"] == "thread_name":
                if track in tracks:
                    problems.append(f"track {track} is named twice")
                tracks[track] = event["args"]["name"]
        elif phase == "X":
            begin = event["ts"]
            slices[track].append((begin, begin + event["dur"], event["name"]))
        elif phase in "stf":
            arrows[event["id"]].append((event["ts"], phase, track, event["name"], event["cat"]))
        elif phase not in "iC":
            problems.append(f"phase {phase} is not one that the writer uses")
    labels = collections.Counter((pid, name) for (pid, _), name in tracks.items())
    problems += [f"two tracks of process {pid} are called {name}"
                 for (pid, name), count in labels.items() if count > 1]
    for track, list_of_slices in slices.items():
        if track not in tracks or track[0] not in names:
            problems.append(f"slices on track {track}, which has no name")
        list_of_slices.sort()
        for (b0, e0, n0), (b1, e1, n1) in zip(list_of_slices, list_of_slices[1:]):
            if e0 > b1:
                problems.append(f"{tracks.get(track)}: '{n0}' until {e0} overlaps '{n1}' from {b1}")
    for flow, points in arrows.items():
        order = "".join(phase for _, phase, *_ in points)
        if order[0] != "s" or order[-1] != "f" or set(order[1:-1]) - {"t"}:
            problems.append(f"arrow {flow} reads {order}")
        if len({point[3:] for point in points}) != 1:
            problems.append(f"arrow {flow} changes its name or category")
        times = [point[0] for point in points]
        if times != sorted(times):
            problems.append(f"arrow {flow} goes back in time: {times}")
        for ts, phase, track, *_ in points:
            at = nanoseconds(ts)
            if not any(nanoseconds(b) <= at <= nanoseconds(b) + nanoseconds(e - b)
                       for b, e, _ in slices[track] if b <= ts <= e):
                problems.append(f"arrow {flow}: its {phase} at {ts} lies in no slice of {tracks.get(track)}")
    if need_arrows and not arrows:
        problems.append("no arrows")
    problems += [f"no process {name}" for name in processes if name not in names.values()]
    print(f"{len(events)} events, {len(names)} processes, {len(tracks)} tracks, "
          f"{sum(map(len, slices.values()))} slices, {len(arrows)} arrows")
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace")
    parser.add_argument("--arrows", action="store_true", help="there must be some")
    parser.add_argument("--processes", nargs="*", default=[])
    arguments = parser.parse_args()
    with open(arguments.trace, encoding="utf-8") as file:
        # Decimal: picoseconds of a long run do not fit a double.
        trace = json.load(file, parse_float=Decimal, parse_int=int)
    problems = check(trace, arguments.arrows, arguments.processes)
    for problem in problems[:20]:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
