#!/usr/bin/env python3
"""Statistics of KV selection that the simulator's generator is tested against.

usage: selection_reference.py PROFILES_DIR [DATA_DIR] > tests/fixtures/selection/reference.csv
Needs numpy, scipy and pyyaml.

Draws every row of every step from the model of the profile files (the n(s) largest z win), an
implementation apart from sim/select. Columns: case, statistic, reference, measured; `measured` comes from
the tables of DATA_DIR and is empty where there is none. Steps -32 .. -1 stand for the prompt's own last
queries. kept_A_B: rows that no earlier step selected and no push brought, of the selected rows of steps A to B. Budgets count blocks of all layers, the two dense ones included (Gemma: its global layers only).
"""
import csv
import pathlib
import sys

import numpy as np
import yaml
from scipy.stats import spearmanr

SINKS, BLOCKS, STEPS, PAST = 4, 1024, 64, 32
LAGS, UNION = [1, 2, 5, 10, 20, 40], [1, 5, 10, 20, 64]
WINDOWS = [(1, 1), (2, 5), (6, 20), (21, 64)]  # of steps: single later steps are too noisy to compare
PARTS = [("part0", 0, 1), ("p1_8", 1, 8), ("p8_16", 8, 16), ("p16_24", 16, 24), ("p24_28", 24, 28), ("p28_31", 28, 31),
         ("p31", 31, 32)]
CASES = [  # name, profile, selector, tokens, kv heads, layers that the budget counts, dense ones, texts
    ("smollm2_ig_2048", "smollm2", "infinigen", 2048, 3, 30, 2, 9),
    ("smollm2_ig_4096", "smollm2", "infinigen", 4096, 3, 30, 2, 9),
    ("smollm2_ig_8192", "smollm2", "infinigen", 8192, 3, 30, 2, 9),
    ("smollm2_ex20_4096", "smollm2", "hata", 4096, 3, 30, 2, 9),
    ("gemma3_ig_4096", "gemma3", "infinigen", 4096, 1, 3, 0, 120),
]


def share(text):
    return float(str(text).rstrip("% ")) / 100


def simulate(rng, layer, tokens, heads, correlation):
    """Selected rows, [step][head][position], of the steps -PAST .. STEPS-1."""
    n, sb = share(layer["n"]), layer["sigma_between"]
    n = min(n * np.exp(sb * rng.standard_normal() - sb * sb / 2), 0.2)
    sn, rho_n = layer["sigma_n"], layer["rho_n"]
    size = tokens + STEPS
    u = np.sqrt(correlation) * rng.standard_normal((1, size)) + np.sqrt(1 - correlation) * rng.standard_normal((heads, size))
    u = (np.sqrt(layer["w_static"]) * u).astype(np.float32)
    x = rng.standard_normal((heads, size), dtype=np.float32)
    e = rng.standard_normal()
    rho, fresh = np.float32(layer["rho"]), np.float32(np.sqrt(1 - layer["rho"] ** 2))
    ar, noise = np.float32(np.sqrt(layer["w_ar"])), np.float32(np.sqrt(layer["w_noise"]))
    out = np.zeros((PAST + STEPS, heads, size), bool)
    recency = (layer["g"] * np.log1p(np.arange(size + 1) / layer["a0"])).astype(np.float32)
    for step in range(-PAST, STEPS):
        p = tokens + step
        z = u[:, :p + 1] + ar * x[:, :p + 1] + noise * rng.standard_normal((heads, p + 1), dtype=np.float32)
        z -= recency[p::-1]
        z[:, :SINKS] += 1000
        k = int(min(max(n * tokens * np.exp(sn * e - sn * sn / 2), SINKS + 1), 0.2 * (p + 1)))
        rows = np.argpartition(-z, k - 1, axis=1)[:, :k]
        for head in range(heads):
            out[step + PAST, head, rows[head]] = True
        x = rho * x + fresh * rng.standard_normal((heads, size), dtype=np.float32)
        e = rho_n * e + np.sqrt(1 - rho_n ** 2) * rng.standard_normal()
    return out


def row_statistics(rows, tokens):
    """Per layer: rows [step][head][position] of the steps 0 .. STEPS-1."""
    prompt = rows[..., :tokens]
    out = {"rows": prompt.sum(-1).mean() / tokens, "generated": rows[..., tokens:].sum() / rows.sum()}
    for lag in LAGS:
        both, either = (prompt[:-lag] & prompt[lag:]).sum(-1), (prompt[:-lag] | prompt[lag:]).sum(-1)
        out[f"jaccard_{lag}"] = (both / np.maximum(either, 1)).mean()
    union = np.logical_or.accumulate(prompt, 0).sum(-1).mean(1) / tokens
    for step in UNION:
        out[f"union_{step}"] = union[step - 1]
    place = prompt.sum((0, 1)).astype(float)
    place = (place / place.sum()).reshape(32, -1).sum(1)
    for name, low, high in PARTS:
        out[f"position_{name}"] = place[low:high].sum()
    return out


def top(score, count, rng):
    mask = np.zeros(score.size, bool)
    mask[np.argsort(-(score.ravel() + 1e-12 * rng.random(score.size)))[:count]] = True
    return mask.reshape(score.shape)


def policies(text, texts, budget, per_block, rng):
    """Pushed blocks [layer][block] of each order."""
    own_counts, own_past = texts[text][0].sum(0), texts[text][2]
    layers = own_counts.shape[0]
    profile = np.mean([c.sum(0) / c.sum() for i, (c, _, _) in enumerate(texts) if i != text], 0)
    by_profile = top(profile, budget, rng)
    totals = np.zeros_like(by_profile)
    for layer, count in enumerate(by_profile.sum(1)):
        if count:
            totals[layer, 0] = True
            totals[layer, BLOCKS - (count - 1):] = count > 1
    place = np.arange(BLOCKS, dtype=float)
    newest = np.broadcast_to(np.where(place < max(1, SINKS // per_block), 1e9, place), (layers, BLOCKS))
    return {
        "profile": by_profile,
        "layer_totals_recency": totals,
        "recency": top(newest, budget, rng),
        "sequential": top(-np.arange(layers * BLOCKS, dtype=float).reshape(layers, BLOCKS), budget, rng),
        "sequential_tokens": top(np.broadcast_to(-place, (layers, BLOCKS)), budget, rng),
        "random": top(rng.random((layers, BLOCKS)), budget, rng),
        "own_queries": top(own_past, budget, rng),
        "own_queries_profile": top(own_past / own_past.sum() + profile, budget, rng),
        "oracle": top(own_counts, budget, rng),
    }


def run_case(name, profile, selector, tokens, heads, layers_in_budget, dense, texts_wanted):
    spec = yaml.safe_load(open(pathlib.Path(sys.argv[1]) / f"{profile}.yaml"))
    fit = next(f for f in spec["fits"] if f["selector"] == selector and f["prompt_tokens"] == tokens)
    rng = np.random.default_rng(7)
    per_block = tokens // BLOCKS
    rows, texts = [], []
    for _ in range(texts_wanted):
        counts, fresh, past = [], [], []
        for layer in fit["layers"]:
            drawn = simulate(rng, layer, tokens, heads, fit["head_correlation"])
            rows.append(row_statistics(drawn[PAST:], tokens))
            prompt = drawn[PAST:, :, :tokens]
            seen = np.logical_or.accumulate(prompt, 0)
            new = prompt.copy()
            new[1:] &= ~seen[:-1]
            shape = (STEPS, heads, BLOCKS, per_block)
            counts.append(prompt.reshape(shape).sum((1, 3)))
            fresh.append(new.reshape(shape).sum((1, 3)))
            past.append(drawn[:PAST, :, :tokens].sum((0, 1)).reshape(BLOCKS, per_block).sum(1))
        texts.append((np.stack(counts, 1), np.stack(fresh, 1), np.stack(past).astype(float)))
    out = {key: np.mean([r[key] for r in rows]) for key in rows[0]}
    flat = [c.sum(0).ravel() for c, _, _ in texts]
    out["spearman"] = np.mean([spearmanr(a, b).statistic for i, a in enumerate(flat[:9]) for b in flat[:i]])
    for percent in (15, 25):
        budget = int(percent / 100 * layers_in_budget * BLOCKS) - dense * BLOCKS
        sums = {}
        for i, (counts, fresh, _) in enumerate(texts):
            for policy, mask in policies(i, texts, budget, per_block, rng).items():
                value = {"static": (counts * ~mask).sum() / counts.sum(), "kept": (fresh * ~mask).sum() / counts.sum()}
                for first, last in WINDOWS:
                    steps = slice(first - 1, last)
                    value[f"kept_{first}_{last}"] = (fresh[steps] * ~mask).sum() / counts[steps].sum()
                sums.setdefault(policy, []).append(value)
        for policy, values in sums.items():
            for key in values[0]:
                out[f"ondemand_{percent}_{policy}_{key}"] = np.mean([v[key] for v in values])
    return out


def measured(data, profile, short, tokens):
    """The same statistics as measured, as far as the tables hold them."""
    fit = list(csv.DictReader(open(data / f"generator_{profile}_{short}_{tokens}.csv")))
    mean = lambda key: np.mean([float(r[key]) for r in fit])
    out = {"generated": mean("meas_share_generated"), "rows": mean("n") * (1 - mean("meas_share_generated"))}
    out |= {f"jaccard_{lag}": mean(f"meas_jac{lag}") for lag in LAGS} | {f"union_{s}": mean(f"meas_union{s}") for s in UNION}
    out |= {f"position_{name}": mean(f"meas_{name}") for name, _, _ in PARTS}
    for row in csv.DictReader(open(data / f"profile_agreement_{profile}.csv")):
        if row["selector"] == short and row["class"] == "other kind, same length":
            out["spearman"] = float(row["spearman_1024"])  # mean over the lengths
    names = {"profile, same length, all kinds": "profile", "profile layer totals + sinks+recency": "layer_totals_recency",
             "sinks+recency": "recency", "sequential layer-major": "sequential", "sequential per layer": "sequential_tokens",
             "random": "random", "prompt's own last 32 queries, mass": "own_queries", "own mass + profile": "own_queries_profile",
             "oracle (own profile, 64 steps)": "oracle"}
    for row in csv.DictReader(open(data / f"ondemand_mean_{profile}.csv")):
        if row["selector"] != short or row["T"] != str(tokens) or row["policy"] not in names:
            continue
        key = f"ondemand_{round(100 * float(row['budget']))}_{names[row['policy']]}"
        out[f"{key}_static"], out[f"{key}_kept"] = float(row["static_mean64"]), float(row["kept_mean64"])
        out[f"{key}_kept_1_1"] = float(row["kept_s1"])
    return out


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    print("# Made by: python3 analysis/selection_reference.py scenarios/profiles DATA_DIR")
    print("case,statistic,reference,measured")
    for case in CASES:
        reference = run_case(*case)
        name, profile, selector, tokens = case[:4]
        short = {"infinigen": "ig", "hata": "ex20"}[selector]
        real = measured(pathlib.Path(sys.argv[2]), profile, short, tokens) if len(sys.argv) == 3 else {}
        for key, value in reference.items():
            print(f"{name},{key},{value:.5f},{f'{real[key]:.5f}' if key in real else ''}", flush=True)


if __name__ == "__main__":
    main()
