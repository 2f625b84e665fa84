// labels.ts: texts that must not stand on each other.

// Moves `wanted` places apart until neighbours keep `gap` and all lie within [low, high], in
// their order and as near to where they wanted to be as that allows. Where the room is too small
// for all, the gap shrinks.
export function spread(wanted: number[], gap: number, low: number, high: number): number[] {
  const order = wanted.map((_, i) => i).sort((a, b) => (wanted[a] ?? 0) - (wanted[b] ?? 0));
  const step = Math.min(gap, (high - low) / Math.max(1, order.length - 1));
  const placed = wanted.slice();
  // Groups of touching labels, each around the mean of what its members want.
  const groups: { members: number[]; sum: number; start: number }[] = [];
  const settle = (group: { members: number[]; sum: number; start: number }) => {
    const length = (group.members.length - 1) * step;
    const centre = group.sum / group.members.length;
    group.start = Math.min(Math.max(centre - length / 2, low), high - length);
  };
  for (const index of order) {
    let group = { members: [index], sum: wanted[index] ?? 0, start: 0 };
    settle(group);
    for (let above = groups[groups.length - 1]; above; above = groups[groups.length - 1]) {
      if (above.start + above.members.length * step <= group.start + 1e-9) break;
      group = {
        members: [...above.members, ...group.members],
        sum: above.sum + group.sum,
        start: 0,
      };
      settle(group);
      groups.pop();
    }
    groups.push(group);
  }
  for (const group of groups) {
    group.members.forEach((index, i) => (placed[index] = group.start + i * step));
  }
  return placed;
}
