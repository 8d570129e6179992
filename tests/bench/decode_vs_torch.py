#!/usr/bin/env python3
"""Decode attention of kvlane beside PyTorch's scaled_dot_product_attention on the CPU: same shape, dtype and threads.

decode_vs_torch.py PROGRAM, where PROGRAM is kvlane_bench_kernels. Both attend with 32 query heads over 8 kv heads of
128, bf16. The outputs are compared first; then the two take turns, and the best of each counts. PyTorch is timed both
with its own sharing of kv heads (enable_gqa) and with kv heads repeated beforehand, the repeating not counted; the
faster one is the rival. Prints `decode_vs_torch OURS RIVAL RATIO`, rates in bytes of KV a second.
"""
import os
import subprocess
import sys
import tempfile
import time

import torch
from torch.nn.functional import scaled_dot_product_attention as attention

SEQUENCES, TOKENS, ROUNDS = 4, 16384, 7
HEADS, KV_HEADS, WIDTH, BLOCK = 32, 8, 128, 16


def main():
    program = sys.argv[1]
    threads = len(os.sched_getaffinity(0))
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    query = torch.randn(SEQUENCES, HEADS, 1, WIDTH, dtype=torch.bfloat16)
    keys = torch.randn(SEQUENCES, KV_HEADS, TOKENS, WIDTH, dtype=torch.bfloat16)
    values = torch.randn(SEQUENCES, KV_HEADS, TOKENS, WIDTH, dtype=torch.bfloat16)
    # Block-major rows, as kernels/common/kv_cache.h: [sequence][block][kv head][token][K, V][width].
    rows = torch.stack([keys, values], dim=3).reshape(SEQUENCES, KV_HEADS, TOKENS // BLOCK, BLOCK, 2, WIDTH)
    rows = rows.permute(0, 2, 1, 3, 4, 5).contiguous()
    group = HEADS // KV_HEADS
    repeated = keys.repeat_interleave(group, dim=1), values.repeat_interleave(group, dim=1)
    rivals = {
        "shared kv heads": lambda: attention(query, keys, values, enable_gqa=True),
        "repeated kv heads": lambda: attention(query, *repeated),
    }
    best = {name: float("inf") for name in rivals}
    ours = float("inf")
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, name) for name in ("query", "rows", "out")]
        for path, tensor in zip(paths, (query, rows)):
            with open(path, "wb") as file:
                file.write(tensor.contiguous().view(torch.int16).numpy().tobytes())
        for turn in range(ROUNDS):
            printed = subprocess.run(
                [program, "--decode-for-torch", str(SEQUENCES), str(TOKENS), *paths, "5"],
                check=True, capture_output=True, text=True).stdout
            ours = min(ours, *map(float, printed.split()))
            if turn == 0:
                with open(paths[2], "rb") as file:
                    out = torch.frombuffer(bytearray(file.read()), dtype=torch.bfloat16)
                exact = attention(query.float(), *(tensor.float() for tensor in repeated)).flatten()
                error = ((out.float() - exact).abs().max() / exact.abs().max()).item()
                if not error < 2**-7:
                    sys.exit(f"decode_vs_torch: the outputs differ by {error:.3g}; nothing was timed")
            for name, run in rivals.items():
                run()
                for _ in range(3):
                    start = time.perf_counter()
                    run()
                    best[name] = min(best[name], time.perf_counter() - start)
    rival = min(best.values())
    size = rows.numel() * 2
    for name, seconds in best.items():
        print(f"PyTorch {torch.__version__}, {name}, {threads} threads: {seconds * 1e3:.1f} ms; kvlane {ours * 1e3:.1f} ms",
              file=sys.stderr)
    print(f"decode_vs_torch {size / ours:.0f} {size / rival:.0f} {rival / ours:.2f}")


if __name__ == "__main__":
    main()
