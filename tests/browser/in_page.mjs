// in_page.mjs: what is asked inside the page; each function runs there on its own.

// Elements wider than the page or cut by their own box; SVG text beyond the viewport.
export const overflows = () => {
  const root = document.documentElement;
  const found = [];
  if (root.scrollWidth > root.clientWidth)
    found.push(`page ${root.scrollWidth} > ${root.clientWidth}`);
  for (const node of document.querySelectorAll('main *, header *')) {
    if (getComputedStyle(node).visibility === 'hidden') continue;
    if (node.closest('thead') && getComputedStyle(node.closest('thead')).position === 'absolute')
      continue;
    const box = node.getBoundingClientRect();
    if (box.width > 0 && (box.right > root.clientWidth + 0.5 || box.left < -0.5))
      found.push(`${node.tagName} ${node.textContent.slice(0, 30)}`);
    if (
      !(node instanceof SVGElement) &&
      node.clientWidth > 0 &&
      node.scrollWidth > node.clientWidth + 1
    )
      found.push(`inside ${node.tagName} ${node.textContent.slice(0, 30)}`);
  }
  return found;
};

// Texts of one picture that stand on each other, or leave it.
export const overlaps = () => {
  const found = [];
  for (const svg of document.querySelectorAll('svg.chart')) {
    const frame = svg.getBoundingClientRect();
    const boxes = Array.from(svg.querySelectorAll('text'), (node) => [
      node.textContent,
      node.getBoundingClientRect(),
    ]);
    boxes.forEach(([text, a], i) => {
      if (a.top < frame.top - 1 || a.bottom > frame.bottom + 1) found.push(`"${text}" is cut`);
      boxes.slice(i + 1).forEach(([other, b]) => {
        if (
          a.left < b.right - 1 &&
          b.left < a.right - 1 &&
          a.top < b.bottom - 1 &&
          b.top < a.bottom - 1
        )
          found.push(`"${text}" on "${other}"`);
      });
    });
  }
  return found;
};

// Contrast of what axe does not judge: colours of pictures (3:1) and words (4.5:1) on the page.
export const contrasts = () => {
  const luminance = (hex) => {
    const [r, g, b] = [1, 3, 5]
      .map((at) => parseInt(hex.slice(at, at + 2), 16) / 255)
      .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const style = getComputedStyle(document.documentElement);
  const color = (name) => style.getPropertyValue(name).trim();
  const ratio = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  const words = ['--ink', '--muted', '--ok', '--bad'];
  const marks = ['--focus', '--c0', '--c1', '--c2', '--c3', '--c4', '--c5', '--cc'];
  const parts = ['--compute', '--exchange'];
  return [...words.map((name) => [name, 4.5]), ...[...marks, ...parts].map((name) => [name, 3])]
    .map(([name, least]) => [name, ratio(luminance(color(name)), luminance(color('--bg'))), least])
    .filter(([, got, least]) => !(got >= least))
    .map(([name, got]) => `${name} ${got.toFixed(2)}`);
};

// Colour never alone: the looks (colour, fill, shape) of the variants of a table.
export const looks = () =>
  Array.from(document.querySelectorAll('#variants tbody tr'), (row) => {
    const path = row.querySelector('.mk path');
    const { fill, stroke } = getComputedStyle(path);
    return [row.dataset.name, path.getAttribute('d'), `${fill} ${stroke}`];
  });
