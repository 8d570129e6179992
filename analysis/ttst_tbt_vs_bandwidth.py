#!/usr/bin/env python3
"""TTST and TBT of each strategy against the bandwidth, from a sweep's runs.csv."""

import sys

import figure


def bandwidth_column(runs, axes):
    for axis in axes:
        numbers = runs[axis].map(figure.gbps)
        if numbers.notna().all() and runs[axis].nunique() > 1:
            return axis, numbers
    return None, None


if __name__ == "__main__":
    sys.exit(figure.run_metrics_script(__doc__, bandwidth_column, "bandwidth (Gbit/s)",
                                       "rates such as 25 Gbps"))
