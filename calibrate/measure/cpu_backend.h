#pragma once
// The kernels on the CPU; matrix products are OpenBLAS's.

#include "calibrate/measure/backend.h"

namespace kvlane::calibrate {

class CpuBackend final : public Backend {
 public:
  CpuBackend(Operands& operands, kernels::Cpu& cpu) : Backend(operands), cpu_(cpu) {}

  Call prefill_attention(const kernels::PrefillAttention& args, int, int) override {
    return [args, &cpu = cpu_] { kernels::cpu::prefill_attention(args, cpu); };
  }
  Call decode_attention(const kernels::DecodeAttention& args, int) override {
    return [args, &cpu = cpu_] { kernels::cpu::decode_attention(args, cpu); };
  }
  Call sparse_attention(const kernels::SparseAttention& args) override {
    return [args, &cpu = cpu_] { kernels::cpu::sparse_attention(args, cpu); };
  }
  Call hata_encode(const kernels::HataEncode& args) override {
    return [args, &cpu = cpu_] { kernels::cpu::hata_encode(args, cpu); };
  }
  Call hata_score(const kernels::HataScore& args) override {
    return [args, &cpu = cpu_] { kernels::cpu::hata_score(args, cpu); };
  }
  Call infinigen_project(const kernels::InfinigenProject& args) override {
    return [args, &cpu = cpu_] { kernels::cpu::infinigen_project(args, cpu); };
  }
  Call infinigen_score(const kernels::InfinigenScore& args) override {
    return [args, &cpu = cpu_] { kernels::cpu::infinigen_score(args, cpu); };
  }
  Call topk(const kernels::TopK& args) override {
    return [args, &cpu = cpu_] { kernels::cpu::topk(args, cpu); };
  }
  Call index_split(const kernels::IndexSplit& args) override {
    return [args, &cpu = cpu_] { kernels::cpu::index_split(args, cpu); };
  }
  Call hack_append(const kernels::HackAppend& args, int) override {
    return [args, &cpu = cpu_] { kernels::cpu::hack_append(args, cpu); };
  }
  Call hack_attention(const kernels::HackAttention& args, int) override {
    return [args, &cpu = cpu_] { kernels::cpu::hack_attention(args, cpu); };
  }
  Call hack_dequantise_attention(const kernels::HackAttention& args, int) override {
    return [args, &cpu = cpu_] { kernels::cpu::hack_dequantise_attention(args, cpu); };
  }
  Call rms_norm(const kernels::RmsNorm& args) override {
    return [args, &cpu = cpu_] { kernels::cpu::rms_norm(args, cpu); };
  }
  Call rope(const kernels::Rope& args) override {
    return [args, &cpu = cpu_] { kernels::cpu::rope(args, cpu); };
  }
  Call gated_unit(const kernels::GatedUnit& args) override {
    return [args, &cpu = cpu_] { kernels::cpu::gated_unit(args, cpu); };
  }
  Call embedding(const kernels::Embedding& args) override {
    return [args, &cpu = cpu_] { kernels::cpu::embedding(args, cpu); };
  }
  Call add(const kernels::Add& args) override {
    return [args, &cpu = cpu_] { kernels::cpu::add(args, cpu); };
  }
  Call gemm(const kernels::Gemm& args) override {
    return [args, threads = cpu_.threads()] { kernels::cpu::gemm(args, threads); };
  }

 private:
  kernels::Cpu& cpu_;
};

}  // namespace kvlane::calibrate
