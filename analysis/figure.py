"""What the figures share: reading result files, a colour and a marker for each strategy, saving."""

import argparse
import json
import re
import sys

import matplotlib

matplotlib.use("Agg")  # files only, no display

import matplotlib.pyplot as plt  # noqa: E402
import pandas as pd  # noqa: E402
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter  # noqa: E402

# Okabe and Ito's palette: apart for colour-blind eyes. Strategies that have a fixed meaning keep their
# colour from figure to figure; others take what is left, in order.
KNOWN = {
    "ideal": "#000000",
    "full": "#D55E00",
    "sequential": "#CC79A7",
    "hack": "#E69F00",
    "smartgen": "#0072B2",
}
OTHERS = ["#009E73", "#56B4E9", "#8C8C8C", "#7F3C8D", "#B8A000", "#7A4B1E"]
MARKERS = ["o", "s", "^", "D", "v", "P", "X", "<", ">", "*", "h"]

BITS = {"bps": 1, "Kbps": 1e3, "Mbps": 1e6, "Gbps": 1e9, "Tbps": 1e12,
        "B/s": 8, "KB/s": 8e3, "MB/s": 8e6, "GB/s": 8e9, "TB/s": 8e12}
RATE = re.compile(r"^\s*([0-9.eE+-]+)\s*(" + "|".join(map(re.escape, BITS)) + r")\s*$")


class BadInput(Exception):
    """The file is not what the figure needs; the message is for the user."""


def styles(strategies):
    """{strategy: (colour, marker)} for these names, the same in every panel."""
    spare = iter(OTHERS * 4)
    return {name: (KNOWN[name] if name in KNOWN else next(spare), MARKERS[i % len(MARKERS)])
            for i, name in enumerate(strategies)}


def gbps(text):
    """'25 Gbps' as 25.0; None for a text that is no rate."""
    match = RATE.match(str(text))
    return float(match[1]) * BITS[match[2]] / 1e9 if match else None


def read_runs(path):
    """(rows, names of the swept columns) of a sweep's runs.csv."""
    try:
        runs = pd.read_csv(path, dtype={"run_hash": str})
    except (OSError, ValueError) as error:
        raise BadInput(f"{path}: {error}") from error
    if "scenario" not in runs.columns or "ttst_mean_s" not in runs.columns:
        raise BadInput(f"{path}: not the runs.csv of `kvlane sweep`")
    axes = list(runs.columns[: list(runs.columns).index("scenario")])
    return runs, axes


def read_result(path):
    """A kvlane.result/1."""
    try:
        with open(path, encoding="utf-8") as file:
            result = json.load(file)
    except (OSError, ValueError) as error:
        raise BadInput(f"{path}: {error}") from error
    if not isinstance(result, dict) or result.get("schema") != "kvlane.result/1":
        raise BadInput(f"{path}: not a kvlane.result/1 (kvlane run --format json)")
    return result


def where(runs, conditions, path):
    """Only rows with key=value for each condition."""
    for condition in conditions:
        key, _, value = condition.partition("=")
        if key not in runs.columns:
            raise BadInput(f"{path}: --where {condition}: no column {key}")
        runs = runs[runs[key].astype(str) == value]
        if runs.empty:
            raise BadInput(f"{path}: --where {condition}: no run is left")
    return runs


def short(key):
    """A swept key as a title says it: its last words."""
    words = [word for word in key.split(".") if not word.isdigit()]
    return " ".join(words[-2:]).replace("_", " ")


def plain_log(axis, values):
    """Logarithmic axis with the swept values as its ticks, written plainly."""
    axis.set_ticks(sorted(set(values)))
    axis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
    axis.set_minor_formatter(NullFormatter())
    axis.set_minor_locator(LogLocator(subs=()))


def metric_panels(runs, x, x_label, facet, metrics, title):
    """Rows: metrics [(column stem, label, scale)]; columns: values of `facet` (None: one)."""
    strategies = list(dict.fromkeys(runs["strategy"]))
    look = styles(strategies)
    values = [None] if facet is None else list(dict.fromkeys(runs[facet]))
    figure, grid = plt.subplots(len(metrics), len(values), sharex=True, sharey="row", squeeze=False,
                                figsize=(max(6.5, 3.1 * len(values) + 1.0), 2.7 * len(metrics) + 1.2),
                                layout="constrained")
    for column, value in enumerate(values):
        part = runs if value is None else runs[runs[facet] == value]
        for row, (stem, label, scale) in enumerate(metrics):
            ax = grid[row][column]
            for name in strategies:
                line = part[part["strategy"] == name].sort_values(x)
                if line.empty:
                    continue
                colour, marker = look[name]
                y = line[f"{stem}_mean_s"] * scale
                spread = line.get(f"{stem}_spread_s")
                error = None if spread is None or spread.isna().all() else spread * scale
                ax.errorbar(line[x], y, yerr=error, label=name, color=colour, marker=marker,
                            markersize=5, linewidth=1.6, capsize=2,
                            linestyle="--" if name == "ideal" else "-",
                            zorder=5 if name == "ideal" else 3)  # the bound stays visible
            ax.set_xscale("log")
            plain_log(ax.xaxis, runs[x])
            ax.set_yscale("log")
            ax.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
            few = ax.yaxis.get_major_locator().tick_values(*ax.get_ylim())
            low, high = ax.get_ylim()
            if sum(low <= tick <= high for tick in few) < 3:
                ax.yaxis.set_minor_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
                ax.yaxis.set_minor_locator(LogLocator(subs=(2, 5)))
            else:
                ax.yaxis.set_minor_formatter(NullFormatter())
            ax.grid(True, which="both", color="#E3E3E3", linewidth=0.6)
            ax.tick_params(axis="x", labelsize=8)
            if row == 0 and value is not None:
                ax.set_title(f"{short(facet)} = {value}", fontsize=10)
            if column == 0:
                ax.set_ylabel(label)
            if row == len(metrics) - 1:
                ax.set_xlabel(x_label)
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper center", bbox_to_anchor=(0.5, 0.0),
                  ncol=min(len(labels), 4 if len(values) == 1 else 6), frameon=False)
    figure.suptitle(title, fontsize=11)
    return figure


def run_metrics_script(about, find_x, x_label, describe):
    """Main of the scripts that plot TTST and TBT of a sweep. find_x(runs, axes) -> (column, numbers)."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("runs", help="runs.csv of `kvlane sweep`")
    parser.add_argument("--out", required=True, help="picture to write (.png, .pdf, .svg)")
    parser.add_argument("--where", action="append", default=[], metavar="KEY=VALUE",
                        help="only the runs with this value of a swept key")

    def draw(arguments):
        runs, axes = read_runs(arguments.runs)
        runs = where(runs, arguments.where, arguments.runs)
        key, numbers = find_x(runs, axes)
        if key is None:
            raise BadInput(f"{arguments.runs}: no swept key holds {describe}")
        runs = runs.assign(x_number=numbers)
        others = [axis for axis in axes if axis != key and runs[axis].nunique() > 1]
        if len(others) > 1:
            raise BadInput(f"{arguments.runs}: {' and '.join(others)} vary too; "
                           "fix all but one of them by --where KEY=VALUE")
        facet = others[0] if others else None
        if facet is not None and runs[facet].nunique() > 6:
            raise BadInput(f"{arguments.runs}: {facet} has more than 6 values; fix it by --where")
        return metric_panels(runs, "x_number", x_label, facet,
                             [("ttst", "TTST (s), mean", 1.0), ("tbt", "TBT (ms), mean", 1e3)],
                             f"{runs['scenario'].iloc[0]}, first token: {runs['first_token'].iloc[0]}")

    return run(parser, draw)


def run(parser, draw):
    """Parses, draws, saves; bad input is one line on stderr and exit status 2."""
    arguments = parser.parse_args()
    try:
        figure = draw(arguments)
        figure.savefig(arguments.out, dpi=150, bbox_inches="tight")
    except BadInput as error:
        print(error, file=sys.stderr)
        return 2
    plt.close(figure)
    return 0
