#!/usr/bin/env python3
"""TTST and TBT of each strategy against the prompt length, from a sweep's runs.csv."""

import sys

import pandas as pd

import figure


def prompt_column(runs, axes):
    for axis in axes:
        if "tokens" not in axis or "output" in axis:
            continue
        numbers = pd.to_numeric(runs[axis], errors="coerce")
        if numbers.notna().all() and numbers.nunique() > 1:
            return axis, numbers / 1000
    return None, None


if __name__ == "__main__":
    sys.exit(figure.run_metrics_script(__doc__, prompt_column, "prompt (1000 tokens)",
                                       "prompt lengths (…prompts.0.tokens)"))
