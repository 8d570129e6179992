#!/usr/bin/env python3
"""Writes scenarios/profiles/{smollm2,gemma3}.yaml from the tables of the selection measurements.

usage: fit_profiles.py DATA_DIR OUT_DIR
DATA_DIR holds generator_MODEL_SELECTOR_TOKENS.csv (fitted parameters by layer) and layers_MODEL.csv
(attention mass by layer). Only the standard library is needed.
"""
import csv
import pathlib
import sys

PROFILES = {
    "smollm2": dict(
        title="SmolLM2-135M-Instruct (Q4_1): 30 layers, 3 kv heads",
        models=["SmolLM2-135M", "SmolLM2-135M-Instruct", "smollm2"],
        source="measured on SmolLM2-135M-Instruct, 27 runs of 64 decode steps over 12 texts of 2048 to 8192 tokens",
        layers=30,
        head_correlation=0.5,
        fits=[("infinigen", "ig", 2048), ("infinigen", "ig", 4096), ("infinigen", "ig", 8192), ("hata", "ex20", 4096)],
    ),
    "gemma3": dict(
        title="Gemma 3 270M (Q4_K_M), its three global layers: 1 kv head",
        models=["gemma-3-270m", "gemma-3-270m-it", "gemma3-270m", "gemma-3-270m-q4_k_m"],
        source="measured on Gemma 3 270M, global layers, 12 runs of 64 decode steps over texts of 2048 to 8192 tokens",
        layers=18,
        head_correlation=0,
        fits=[("infinigen", "ig", 4096)],
    ),
}

NOTE = """\
# KV selection of {title}.
# Written by analysis/fit_profiles.py. Per layer: z = -g ln(1 + age/a0) + sqrt(w_static) u + sqrt(w_ar) x + sqrt(w_noise) N,
# u drawn once a row (head_correlation of it common to the heads of a layer), x an AR(1) process over the steps (rho), N fresh;
# the rows with the largest z are selected, n of the prompt in the mean (ln n: sigma_n, rho_n over the steps, sigma_between
# over the texts). mass: attention mass of the selected rows; mass_cap: that of the exact top 20 %. Fitted to Jaccard index by
# lag, growth of the union, position and share of generated rows.
"""


def number(text):
    return f"{float(text):.4f}".rstrip("0").rstrip(".") or "0"


def percent(text):
    return f"{100 * float(text):.2f}".rstrip("0").rstrip(".") + " %"


def write_profile(name, profile, data, out):
    mass = {int(r["layer"]): r for r in csv.DictReader(open(data / f"layers_{name}.csv"))}
    lines = [NOTE.format(title=profile["title"]) + f"name: {name}", f"source: {profile['source']}",
             "source_class: measured", f"models: [{', '.join(profile['models'])}]", f"layers: {profile['layers']}", "fits:"]
    for selector, short, tokens in profile["fits"]:
        lines += [f"  - selector: {selector}", f"    prompt_tokens: {tokens}", "    cap: 20 %",
                  f"    head_correlation: {profile['head_correlation']}", "    layers:"]
        for row in csv.DictReader(open(data / f"generator_{name}_{short}_{tokens}.csv")):
            layer = int(row["layer"])
            # An exact top 20 % has no spread: what the table gives there is the growth of the prompt.
            fixed = short == "ex20"
            own = mass[layer]["mass_exact20" if fixed else "mass_ig"]
            fields = [f"layer: {layer}", f"n: {percent(row['n'])}",
                      f"sigma_n: {0 if fixed else number(row['sigma_n'])}", f"rho_n: {0 if fixed else number(row['rho_n'])}",
                      f"sigma_between: {0 if fixed else number(row['sigma_n_between_texts'])}"]
            fields += [f"{key}: {number(row[key])}" for key in ("g", "a0", "w_static", "w_ar", "w_noise", "rho")]
            fields += [f"mass: {percent(own)}", f"mass_cap: {percent(mass[layer]['mass_exact20'])}"]
            lines.append("      - {" + ", ".join(fields) + "}")
    (out / f"{name}.yaml").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    for key, value in PROFILES.items():
        write_profile(key, value, pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
