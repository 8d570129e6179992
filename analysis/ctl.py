#!/usr/bin/env python3
"""Cumulative token latency: when the k-th token is there, for each strategy of a result."""

import argparse
import sys

import matplotlib.pyplot as plt

import figure


def draw(arguments):
    result = figure.read_result(arguments.result)
    strategies = [s for s in result["strategies"]
                  if not arguments.only or s["name"] in arguments.only]
    strategies = [s for s in strategies if s["ctl_s"]]
    if not strategies:
        raise figure.BadInput(f"{arguments.result}: no strategy with tokens to draw")
    look = figure.styles([s["name"] for s in result["strategies"]])
    chart, (whole, early) = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained",
                                         gridspec_kw={"width_ratios": [3, 2]})
    first = min(8, max(len(s["ctl_s"]) for s in strategies))
    for s in strategies:
        colour, marker = look[s["name"]]
        dashes = "--" if s["name"] == "ideal" else "-"
        tokens = range(1, len(s["ctl_s"]) + 1)
        whole.plot(tokens, s["ctl_s"], color=colour, linestyle=dashes, linewidth=1.6, label=s["name"],
                   marker=marker, markersize=4.5, markevery=max(1, len(s["ctl_s"]) // 8))
        early.plot(tokens[:first], s["ctl_s"][:first], color=colour, linestyle=dashes, linewidth=1.6,
                   marker=marker, markersize=5)
    whole.set_title("all tokens", fontsize=10)
    early.set_title(f"the first {first}: the gap before token 2 is the TTST", fontsize=10)
    early.set_xticks(range(1, first + 1))
    for ax in (whole, early):
        ax.set_xlabel("token")
        ax.set_ylabel("time since arrival (s), mean")
        ax.set_ylim(bottom=0)
        ax.grid(True, color="#E3E3E3", linewidth=0.6)
    chart.legend(loc="upper center", bbox_to_anchor=(0.5, 0.0), ncol=min(len(strategies), 6),
                 frameon=False)
    chart.suptitle(f"{result['scenario']}, first token: {result['first_token']}", fontsize=11)
    return chart


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("result", help="JSON of `kvlane run --format json`")
    parser.add_argument("--out", required=True, help="picture to write (.png, .pdf, .svg)")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="this strategy only")
    sys.exit(figure.run(parser, draw))
