#!/usr/bin/env python3
"""Predicted against measured times, errors by size, and rooflines, from `kvlane calibrate validate --plot`."""

import argparse
import math
import os
import sys

import matplotlib.pyplot as plt
import pandas as pd

import figure

COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C8C8C"]
COLUMNS = ["what", "gpu", "domain", "kernel", "dtype", "shape", "measured_s", "predicted_s"]
MOST = 4000  # points a panel; a larger set is thinned evenly


def read_points(path):
    try:
        points = pd.read_csv(path, keep_default_na=False)
    except (OSError, ValueError) as error:
        raise figure.BadInput(f"{path}: {error}") from error
    missing = [column for column in COLUMNS if column not in points.columns]
    if missing:
        raise figure.BadInput(f"{path}: no column {missing[0]}; expected points.csv of `calibrate validate --plot`")
    return points


def sizes(points, name):
    """A dimension of every shape ("m=16 n=4096 k=4096"), as numbers."""
    return points["shape"].str.extract(rf"(?:^| ){name}=(\d+)")[0].astype(float)


def thinned(points):
    return points.iloc[:: max(1, len(points) // MOST)]


def panels(count):
    columns = min(3, count)
    rows = -(-count // columns)
    chart, axes = plt.subplots(rows, columns, figsize=(4.2 * columns, 3.6 * rows), layout="constrained", squeeze=False)
    flat = axes.flatten()
    for ax in flat[count:]:
        ax.set_visible(False)
    return chart, flat[:count]


def kinds(points):
    """A chart with a panel a kind: (chart, [(axes, title, rows)])."""
    names = list(dict.fromkeys(points["what"]))
    chart, axes = panels(len(names))
    return chart, [(ax, name, points[points["what"] == name]) for ax, name in zip(axes, names)]


def tidy(ax):
    ax.grid(True, color="#E3E3E3", linewidth=0.6)
    ax.set_axisbelow(True)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


def measured_against_predicted(points):
    chart, parts = kinds(points)
    for ax, kind, some in parts:
        for i, (gpu, rows) in enumerate(some.groupby("gpu")):
            rows = thinned(rows)
            ax.plot(rows["measured_s"], rows["predicted_s"], ".", markersize=2.5, color=COLOURS[i % len(COLOURS)],
                    label=gpu, alpha=0.6)
        ends = [some[["measured_s", "predicted_s"]].min().min(), some[["measured_s", "predicted_s"]].max().max()]
        ax.plot(ends, ends, color="#444444", linewidth=0.8)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_title(kind, fontsize=10)
        ax.set_xlabel("measured (s)")
        ax.set_ylabel("predicted (s)")
        if some["gpu"].nunique() <= 10:
            ax.legend(fontsize=7, markerscale=3, frameon=False)
        tidy(ax)
    return chart


def residuals_by_size(points):
    """predicted / measured over the measured time, with the median and the middle 80 % of each decade's third."""
    chart, parts = kinds(points)
    for ax, kind, some in parts:
        for i, (gpu, rows) in enumerate(some.groupby("gpu")):
            ratio = rows["predicted_s"] / rows["measured_s"]
            grouped = ratio.groupby(rows["measured_s"].map(lambda t: 10 ** (round(3 * math.log10(t)) / 3)))
            middle = grouped.median()
            colour = COLOURS[i % len(COLOURS)]
            ax.plot(middle.index, middle, color=colour, linewidth=1.2, label=gpu)
            ax.fill_between(middle.index, grouped.quantile(0.1), grouped.quantile(0.9), color=colour,
                            alpha=0.15, linewidth=0)
        ax.axhline(1, color="#444444", linewidth=0.8)
        ax.set_xscale("log")
        ax.set_ylim(0.4, 1.8)
        ax.set_title(kind, fontsize=10)
        ax.set_xlabel("measured (s)")
        ax.set_ylabel("predicted / measured")
        if some["gpu"].nunique() <= 10:
            ax.legend(fontsize=7, frameon=False)
        tidy(ax)
    return chart


def rooflines(points):
    """Achieved FLOP/s of every held-out GEMM over its FLOPs a byte, measured and predicted."""
    gemms = points[(points["kernel"] == "gemm") & (points["domain"] == "held out")]
    if gemms.empty:
        return None
    machines = sorted(set(zip(gemms["gpu"], gemms["dtype"])))
    chart, axes = panels(len(machines))
    for ax, (gpu, dtype) in zip(axes, machines):
        rows = thinned(gemms[(gemms["gpu"] == gpu) & (gemms["dtype"] == dtype)])
        m, n, k = (sizes(rows, name) for name in "mnk")
        element = 1 if dtype == "fp8" else 2
        intensity = 2 * m * n * k / (element * (m * k + n * k) + 2 * m * n)
        for column, colour, label in (("measured_s", "#0072B2", "measured"), ("predicted_s", "#D55E00", "predicted")):
            ax.plot(intensity, 2 * m * n * k / rows[column] / 1e12, ".", markersize=2.5, color=colour, label=label,
                    alpha=0.5)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_title(f"{gpu} {dtype}", fontsize=10)
        ax.set_xlabel("FLOP a byte")
        ax.set_ylabel("TFLOP/s")
        ax.legend(fontsize=7, markerscale=3, frameon=False)
        tidy(ax)
    return chart


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("points", help="points.csv of `kvlane calibrate validate --plot DIR`")
    parser.add_argument("--out", required=True, help="folder for the pictures")
    arguments = parser.parse_args()
    try:
        points = read_points(arguments.points)
    except figure.BadInput as error:
        print(f"validation.py: {error}", file=sys.stderr)
        return 2
    for name, chart in (("measured_predicted", measured_against_predicted(points)),
                        ("residuals", residuals_by_size(points)), ("rooflines", rooflines(points))):
        if chart is not None:
            chart.savefig(os.path.join(arguments.out, f"{name}.png"), dpi=130)
    return 0


if __name__ == "__main__":
    sys.exit(main())
