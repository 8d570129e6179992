#!/usr/bin/env python3
"""Fitted against measured times, and rooflines of every kernel, from the tables of `kvlane calibrate report`."""

import argparse
import os
import sys

import matplotlib.pyplot as plt
import pandas as pd

import figure

COLUMNS = ["kernel", "variant", "shape", "part", "measured_s", "p25_s", "p75_s", "fitted_s", "flops", "bytes"]
CEILINGS = ["machine", "read_bytes_per_s", "copy_bytes_per_s", "gemm_flop_per_s"]
PARTS = {"fitted": ("#0072B2", "fitted to"), "held out": ("#D55E00", "held out"), "": ("#8C8C8C", "set aside")}


def read_table(path, columns):
    try:
        table = pd.read_csv(path)
    except (OSError, ValueError) as error:
        raise figure.BadInput(f"{path}: {error}") from error
    missing = [column for column in columns if column not in table.columns]
    if missing:
        raise figure.BadInput(f"{path}: no column {missing[0]}; expected a table of `calibrate report`")
    return table


def panels(names):
    columns = min(4, len(names))
    rows = -(-len(names) // columns)
    chart, axes = plt.subplots(rows, columns, figsize=(3.8 * columns, 3.3 * rows), layout="constrained", squeeze=False)
    flat = axes.flatten()
    for ax in flat[len(names):]:
        ax.set_visible(False)
    return chart, zip(flat, names)


def tidy(ax, title, x, y):
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_title(title, fontsize=10)
    ax.set_xlabel(x, fontsize=8)
    ax.set_ylabel(y, fontsize=8)
    ax.tick_params(labelsize=7)
    ax.grid(True, color="#E3E3E3", linewidth=0.6)
    ax.set_axisbelow(True)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


def measured_only(points):
    """Without what the measurement left out because it takes too long."""
    return points[points["part"] != "extrapolated"]


def measured_against_fitted(points):
    points = measured_only(points)
    points = points[points["fitted_s"] > 0]
    if points.empty:
        return None
    chart, parts = panels(list(dict.fromkeys(points["kernel"])))
    for ax, kernel in parts:
        some = points[points["kernel"] == kernel]
        for part, (colour, label) in PARTS.items():
            rows = some[some["part"] == part] if part else some[~some["part"].isin(PARTS)]
            if rows.empty:
                continue
            # The bar is the middle half of the repetitions.
            spread = [(rows["measured_s"] - rows["p25_s"]).clip(lower=0), (rows["p75_s"] - rows["measured_s"]).clip(lower=0)]
            ax.errorbar(rows["measured_s"], rows["fitted_s"], xerr=spread, fmt="o", markersize=2.5, linewidth=0.5,
                        color=colour, label=label, alpha=0.7)
        ends = [some[["measured_s", "fitted_s"]].min().min(), some[["measured_s", "fitted_s"]].max().max()]
        ax.plot(ends, ends, color="#444444", linewidth=0.8)
        held = some[some["part"] == "held out"]
        error = (held["fitted_s"] / held["measured_s"] - 1).abs().median() if len(held) else float("nan")
        tidy(ax, f"{kernel} ({100 * error:.1f} % median)" if len(held) else kernel, "measured (s)", "fitted (s)")
        ax.legend(fontsize=6, frameon=False)
    return chart


def rooflines(points, ceilings):
    """Achieved FLOP/s over FLOPs a byte; where a kernel has no FLOPs, bytes a second over its bytes."""
    points = measured_only(points)
    read, flops = ceilings["read_bytes_per_s"][0], ceilings["gemm_flop_per_s"][0]
    chart, parts = panels(list(dict.fromkeys(points["kernel"])))
    for ax, kernel in parts:
        some = points[points["kernel"] == kernel]
        arithmetic = some["flops"].fillna(0).gt(0).all()
        for column, colour, label in (("measured_s", "#0072B2", "measured"), ("fitted_s", "#D55E00", "fitted")):
            rows = some[some[column] > 0]
            if arithmetic:
                x, y = rows["flops"] / rows["bytes"], rows["flops"] / rows[column] / 1e9
            else:
                x, y = rows["bytes"], rows["bytes"] / rows[column] / 1e9
            ax.plot(x, y, ".", markersize=3.5, color=colour, label=label, alpha=0.6)
        if arithmetic:
            x = sorted(some["flops"] / some["bytes"])
            ax.plot(x, [min(flops, read * intensity) / 1e9 for intensity in x], color="#444444", linewidth=0.8,
                    label="ceiling")
            tidy(ax, kernel, "operations a byte", "GFLOP/s")
        else:
            ceiling = ceilings["copy_bytes_per_s"][0] if kernel == "copy" else read
            ax.axhline(ceiling / 1e9, color="#444444", linewidth=0.8, label="ceiling")
            tidy(ax, kernel, "bytes", "GB/s")
        ax.legend(fontsize=6, frameon=False)
    return chart


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("points", help="calibration.csv of `kvlane calibrate report`")
    parser.add_argument("--ceilings", required=True, help="ceilings.csv beside it")
    parser.add_argument("--out", required=True, help="folder for the pictures")
    arguments = parser.parse_args()
    try:
        points = read_table(arguments.points, COLUMNS)
        ceilings = read_table(arguments.ceilings, CEILINGS)
        if points.empty or ceilings.empty:
            raise figure.BadInput(f"{arguments.points}: no samples")
    except figure.BadInput as error:
        print(f"calibration.py: {error}", file=sys.stderr)
        return 2
    for name, chart in (("measured_fitted", measured_against_fitted(points)), ("rooflines", rooflines(points, ceilings))):
        if chart is not None:
            chart.suptitle(str(ceilings["machine"][0]), fontsize=10)
            chart.savefig(os.path.join(arguments.out, f"{name}.png"), dpi=120)
    return 0


if __name__ == "__main__":
    sys.exit(main())
