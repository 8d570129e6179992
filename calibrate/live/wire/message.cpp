#include "calibrate/live/wire/message.h"

#include <limits>

namespace kvlane::live {
namespace {

enum class FragmentForm : std::uint8_t { listed, indexed };

// A run of fragments of one region that take one form.
struct Stretch {
  FragmentForm form = FragmentForm::listed;
  std::size_t count = 0;
};

constexpr std::size_t kIndexedFrom = 4;  // below, a list is as short

Stretch next_stretch(std::span<const EpochFragment> fragments) {
  const EpochFragment& first = fragments.front();
  const std::int64_t length = first.fragment.length;
  std::size_t same = 0;
  std::size_t indexed = 0;
  for (const EpochFragment& f : fragments) {
    if (f.fragment.region != first.fragment.region || f.epoch != first.epoch) break;
    ++same;
    if (indexed + 1 == same && length > 0 && f.fragment.length == length) {
      const std::int64_t distance = f.fragment.offset - first.fragment.offset;
      if (distance >= 0 && distance % length == 0 &&
          distance / length <= std::numeric_limits<std::uint32_t>::max()) {
        indexed = same;
      }
    }
  }
  return indexed >= kIndexedFrom ? Stretch{FragmentForm::indexed, indexed}
                                 : Stretch{FragmentForm::listed, same};
}

}  // namespace

std::vector<std::byte> encode_message(const Message& m, std::int64_t least) {
  std::vector<std::byte> bytes;
  Writer out(bytes);
  out.put(m.kind);
  out.put(m.request.value());
  out.put(m.layer.value());
  out.put(m.iteration);
  out.put(m.rows);
  out.put(m.cookie);
  out.put(static_cast<std::uint32_t>(m.runs.size()));
  out.put(static_cast<std::uint32_t>(m.groups.size()));
  out.put(static_cast<std::uint32_t>(m.index.size()));
  for (const BlockRun& run : m.runs) {
    out.put(run.layer);
    out.put(run.first);
    out.put(run.count);
  }
  for (const RowGroup& group : m.groups) {
    out.put(group.request.value());
    out.put(group.rows);
  }
  out.put_all(m.index);
  if (least > 0 && bytes.size() < static_cast<std::size_t>(least)) {
    bytes.resize(static_cast<std::size_t>(least));
  }
  return bytes;
}

bool decode_message(std::span<const std::byte> bytes, OwnedMessage& owned) {
  Reader in(bytes);
  Message& m = owned.message;
  m.kind = in.get_enum(MessageKind::release);
  m.request = RequestId(in.get<std::uint32_t>());
  m.layer = LayerId(in.get<std::uint32_t>());
  m.iteration = in.get<std::int32_t>();
  m.rows = in.get<std::int64_t>();
  m.cookie = in.get<std::uint64_t>();
  const auto runs = in.get<std::uint32_t>();
  const auto groups = in.get<std::uint32_t>();
  const auto index = in.get<std::uint32_t>();
  if (!in.ok() || runs > in.rest().size() / 12 || groups > in.rest().size() / 8) return false;
  owned.runs.resize(runs);
  for (BlockRun& run : owned.runs) {
    run.layer = in.get<std::uint32_t>();
    run.first = in.get<std::uint32_t>();
    run.count = in.get<std::uint32_t>();
  }
  if (groups > in.rest().size() / 8) return false;
  owned.groups.resize(groups);
  for (RowGroup& group : owned.groups) {
    group.request = RequestId(in.get<std::uint32_t>());
    group.rows = in.get<std::uint32_t>();
  }
  in.get_all(index, owned.index);
  m.runs = owned.runs;
  m.groups = owned.groups;
  m.index = owned.index;
  return in.ok();
}

void encode_fragments(std::span<const EpochFragment> fragments, Writer& out) {
  std::vector<Stretch> stretches;
  for (auto left = fragments; !left.empty(); left = left.subspan(stretches.back().count)) {
    stretches.push_back(next_stretch(left));
  }
  out.put(static_cast<std::uint32_t>(stretches.size()));
  for (const Stretch& stretch : stretches) {
    const EpochFragment& first = fragments.front();
    out.put(stretch.form);
    out.put(first.fragment.region.value());
    out.put(first.epoch);
    out.put(static_cast<std::uint32_t>(stretch.count));
    if (stretch.form == FragmentForm::indexed) {
      out.put(first.fragment.offset);
      out.put(first.fragment.length);
    }
    for (const EpochFragment& f : fragments.first(stretch.count)) {
      if (stretch.form == FragmentForm::indexed) {
        out.put(static_cast<std::uint32_t>((f.fragment.offset - first.fragment.offset) /
                                           first.fragment.length));
      } else {
        out.put(f.fragment.offset);
        out.put(f.fragment.length);
      }
    }
    fragments = fragments.subspan(stretch.count);
  }
}

bool decode_fragments(Reader& in, std::int64_t bytes, std::vector<EpochFragment>& fragments) {
  fragments.clear();
  std::int64_t sum = 0;
  const auto stretches = in.get<std::uint32_t>();
  for (std::uint32_t s = 0; s < stretches && in.ok(); ++s) {
    const auto form = in.get_enum(FragmentForm::indexed);
    EpochFragment f;
    f.fragment.region = RegionId(in.get<std::uint32_t>());
    f.epoch = in.get<std::uint32_t>();
    const auto count = in.get<std::uint32_t>();
    const bool indexed = form == FragmentForm::indexed;
    const auto base = indexed ? in.get<std::int64_t>() : 0;
    const auto length = indexed ? in.get<std::int64_t>() : 0;
    if (!in.ok() || count > in.rest().size() / (indexed ? 4 : 16)) return false;
    for (std::uint32_t i = 0; i < count; ++i) {
      if (indexed) {
        std::int64_t distance = 0;
        if (__builtin_mul_overflow(static_cast<std::int64_t>(in.get<std::uint32_t>()), length,
                                   &distance) ||
            __builtin_add_overflow(base, distance, &f.fragment.offset)) {
          return false;
        }
        f.fragment.length = length;
      } else {
        f.fragment.offset = in.get<std::int64_t>();
        f.fragment.length = in.get<std::int64_t>();
      }
      if (f.fragment.length <= 0 || f.fragment.offset < 0 ||
          __builtin_add_overflow(sum, f.fragment.length, &sum)) {
        return false;
      }
      fragments.push_back(f);
    }
  }
  return in.ok() && sum == bytes;
}

}  // namespace kvlane::live
