#!/usr/bin/env python3
"""TTST of each strategy, stacked by what it is spent on, from a result."""

import argparse
import sys

import matplotlib.pyplot as plt

import figure

# Cause, label, colour (Okabe and Ito) and hatch: the hatch tells them apart without colour.
CAUSES = [
    ("prefill_tail", "prefill tail", "#999999", ""),
    ("wire", "wire", "#D55E00", ""),
    ("queue", "queue (shared ports)", "#E69F00", "//"),
    ("orchestration", "orchestration", "#CC79A7", "xx"),
    ("fetch", "fetch on demand", "#0072B2", ".."),
    ("step", "ideal step", "#009E73", ""),
]


def draw(arguments):
    result = figure.read_result(arguments.result)
    strategies = result["strategies"]
    if not strategies:
        raise figure.BadInput(f"{arguments.result}: no strategies")
    totals = [s["metrics"]["ttst_s"]["mean"] for s in strategies]
    milliseconds = max(totals) < 1.0
    scale, unit = (1e3, "ms") if milliseconds else (1.0, "s")
    names = [s["name"] for s in strategies]
    chart, ax = plt.subplots(figsize=(8.5, 0.5 * len(names) + 1.9), layout="constrained")
    left = [0.0] * len(names)
    for key, label, colour, hatch in CAUSES:
        # A part can be slightly negative only by rounding; a bar cannot.
        widths = [max(0.0, s["ttst_parts_s"][key]) * scale for s in strategies]
        ax.barh(names, widths, left=left, color=colour, hatch=hatch, edgecolor="white", linewidth=0.5,
                label=label, height=0.68)
        left = [a + b for a, b in zip(left, widths)]
    for name, end, total in zip(names, left, totals):
        ax.annotate(f"{total * scale:.3g} {unit}", (end, name), xytext=(4, 0),
                    textcoords="offset points", va="center", fontsize=9)
    ax.invert_yaxis()
    ax.set_xlim(0, max(left) * 1.13 if max(left) > 0 else 1)
    ax.set_xlabel(f"time between the first and the second token ({unit}), mean over requests")
    ax.grid(True, axis="x", color="#E3E3E3", linewidth=0.6)
    ax.set_axisbelow(True)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    chart.legend(loc="upper center", bbox_to_anchor=(0.5, 0.0), ncol=3, frameon=False, fontsize=9)
    chart.suptitle(f"{result['scenario']}, first token: {result['first_token']}", fontsize=11)
    return chart


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("result", help="JSON of `kvlane run --format json`")
    parser.add_argument("--out", required=True, help="picture to write (.png, .pdf, .svg)")
    sys.exit(figure.run(parser, draw))
