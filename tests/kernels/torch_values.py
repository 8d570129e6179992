#!/usr/bin/env python3
"""Small cases computed by PyTorch in float64, printed as torch_values.h.

    python3 tests/kernels/torch_values.py > tests/kernels/torch_values.h

Only this script needs torch. Inputs come from a hash that C++ repeats, so the header holds results only.
"""

import math

import torch
import torch.nn.functional as F

STRIDE = 7  # attention outputs: each 7th element is kept
HEADS, KV_HEADS, DIM, SCALE = 4, 2, 64, 0.125


def value(salt, i):
    mask = 0xFFFFFFFF
    h = (i * 2654435761 + salt * 0x9E3779B9) & mask
    h ^= h >> 15
    h = (h * 0x85EBCA6B) & mask
    h ^= h >> 13
    return (h % 97 - 48) / 16


def tensor(salt, *shape):
    values = [value(salt, i) for i in range(math.prod(shape))]
    return torch.tensor(values, dtype=torch.float64).reshape(shape)


def show(name, values, kind="double"):
    flat = values.reshape(-1).tolist()
    text = [f"{v:.15g}" if kind == "double" else str(v) for v in flat]
    print(f"inline constexpr {kind} {name}[] = {{")
    line = "   "
    for t in text:
        if len(line) + len(t) + 2 > 100:
            print(line)
            line = "   "
        line += f" {t},"
    print(line + "};")


def frequencies(dim, theta, scaling=None, factor=1.0, low=1.0, high=4.0, context=8192):
    f = 1.0 / theta ** (torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    if scaling == "linear":
        return f / factor
    if scaling == "llama3":
        wavelength = 2 * math.pi / f
        smooth = (context / wavelength - low) / (high - low)
        middle = (1 - smooth) * f / factor + smooth * f
        scaled = torch.where(wavelength > context / low, f / factor, middle)
        return torch.where(wavelength < context / high, f, scaled)
    return f


def rope(x, positions, f):
    """Llama's form: x * cos + rotate_half(x) * sin on the first 2 * len(f) channels of [token, head, dim]."""
    angle = torch.outer(positions.double(), f.float().double())
    cos = torch.cat([angle.cos()] * 2, -1)[:, None, :]
    sin = torch.cat([angle.sin()] * 2, -1)[:, None, :]
    rotated, rest = x[..., : 2 * len(f)], x[..., 2 * len(f) :]
    a, b = rotated.chunk(2, -1)
    return torch.cat([rotated * cos + torch.cat([-b, a], -1) * sin, rest], -1)


def attention(q, k, v, window=0, cap=0.0):
    """Causal; q [new, heads, dim] are the last of k, v [tokens, kv_heads, dim]."""
    new, tokens = q.shape[0], k.shape[0]
    k, v = (t.repeat_interleave(HEADS // KV_HEADS, dim=1) for t in (k, v))
    logits = torch.einsum("ihd,jhd->hij", q, k) * SCALE
    if cap:
        logits = cap * torch.tanh(logits / cap)
    i = torch.arange(tokens - new, tokens)[:, None]
    j = torch.arange(tokens)[None, :]
    seen = j <= i
    if window:
        seen = seen & (j > i - window)
    weights = torch.softmax(logits.masked_fill(~seen, -math.inf), -1)
    return torch.einsum("hij,jhd->ihd", weights, v)


def sampled(x):
    return x.reshape(-1)[::STRIDE]


print(f"""#pragma once
// Printed by torch_values.py (PyTorch {torch.__version__.split("+")[0]}, float64); not to be edited.
// clang-format off
//
// Inputs: element i of a tensor is torch_input(salt, i), in row-major order of the shape named;
// exact in fp32, fp16 and bf16. Attention: {HEADS} query heads, {KV_HEADS} kv heads, head_dim {DIM}, scale {SCALE};
// query (salt 1) is [new tokens][heads][dim], keys (salt 2) and values (salt 3) are
// [tokens][kv heads][dim], the new tokens are the last; of outputs each {STRIDE}th element is kept.

#include <cstdint>

namespace kvlane::kernels::testing {{

inline double torch_input(std::uint32_t salt, std::uint32_t i) {{
  std::uint32_t h = i * 2654435761u + salt * 0x9e3779b9u;
  h ^= h >> 15;
  h *= 0x85ebca6bu;
  h ^= h >> 13;
  return (static_cast<int>(h % 97) - 48) / 16.0;
}}

inline constexpr int kTorchStride = {STRIDE}, kTorchHeads = {HEADS}, kTorchKvHeads = {KV_HEADS}, kTorchHeadDim = {DIM};
inline constexpr float kTorchScale = {SCALE}f;
""")

print("// x [2][24] (10), weight [24] (11), epsilon 1e-5.")
x, w = tensor(10, 2, 24), tensor(11, 24)
show("kTorchRmsNorm", F.rms_norm(x, (24,), w, 1e-5))
print("// with 1 + weight")
show("kTorchRmsNormOnePlus", F.rms_norm(x, (24,), 1 + w, 1e-5))

print("\n// rotary_dim 16, theta 10^4.")
show("kTorchFrequencies", frequencies(16, 1e4))
print("// rotary_dim 16, theta 10^6, linear, factor 8.")
show("kTorchFrequenciesLinear", frequencies(16, 1e6, "linear", 8.0))
print("// rotary_dim 128, theta 5 10^5, llama3, factor 8, low 1, high 4, original context 8192.")
show("kTorchFrequenciesLlama3", frequencies(128, 5e5, "llama3", 8.0))
positions = torch.tensor([0, 5, 4099])
print("// x [3][2][16] (12) at positions 0, 5, 4099 with kTorchFrequencies rounded to fp32.")
show("kTorchRope", rope(tensor(12, 3, 2, 16), positions, frequencies(16, 1e4)))
print("// The same frequencies on heads of 24: x [3][2][24] (12), the last 8 channels pass.")
show("kTorchRopePartial", rope(tensor(12, 3, 2, 24), positions, frequencies(16, 1e4)))

print("\n// gate [2][16] (13), up [2][16] (14).")
gate, up = tensor(13, 2, 16), tensor(14, 2, 16)
show("kTorchSilu", F.silu(gate) * up)
show("kTorchGeluTanh", F.gelu(gate, approximate="tanh") * up)

print("\n// table [5][16] (15), ids 4, 0, 4, 2, scale 4.")
show("kTorchEmbedding", F.embedding(torch.tensor([4, 0, 4, 2]), tensor(15, 5, 16)) * 4)
print("// a [20] (16) + b [20] (17).")
show("kTorchAdd", tensor(16, 20) + tensor(17, 20))

print("\n// Prefill of 3 new tokens after 8 cached ones; window 0 or 4, soft cap 0 or 2.5.")
q, k, v = tensor(1, 3, HEADS, DIM), tensor(2, 11, KV_HEADS, DIM), tensor(3, 11, KV_HEADS, DIM)
show("kTorchPrefill", sampled(attention(q, k, v)))
show("kTorchPrefillWindow", sampled(attention(q, k, v, window=4)))
show("kTorchPrefillCap", sampled(attention(q, k, v, cap=2.5)))
show("kTorchPrefillWindowCap", sampled(attention(q, k, v, window=4, cap=2.5)))

print("\n// Decode of one token (query [1][heads][dim]) over 9 tokens, itself the last.")
q, k, v = tensor(1, 1, HEADS, DIM), tensor(2, 9, KV_HEADS, DIM), tensor(3, 9, KV_HEADS, DIM)
show("kTorchDecode", sampled(attention(q, k, v)))
show("kTorchDecodeWindow", sampled(attention(q, k, v, window=4)))
show("kTorchDecodeCap", sampled(attention(q, k, v, cap=2.5)))
print("// The same over selected rows: kTorchIndex [kv heads][4].")
index = torch.tensor([[7, 0, 3, 4], [1, 8, 2, 5]])
show("kTorchIndex", index, "int")
picked = index.T[:, :, None].expand(-1, -1, DIM)
show("kTorchSparse", sampled(attention(q, k.gather(0, picked), v.gather(0, picked))))
show("kTorchSparseCap", sampled(attention(q, k.gather(0, picked), v.gather(0, picked), cap=2.5)))

print("\n// The 5 largest of each row of scores [3][40]: torch_input(18, i) + i / 1024; positions ascending.")
scores = tensor(18, 3, 40) + (torch.arange(120, dtype=torch.float64) / 1024).reshape(3, 40)
show("kTorchTopK", scores.topk(5).indices.sort(-1).values, "int")
print("\n}  // namespace kvlane::kernels::testing")
