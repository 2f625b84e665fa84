// svg.ts: SVG elements, and texts measured as this page draws them. Lengths in CSS pixels.

const SVG = 'http://www.w3.org/2000/svg';

export type Attributes = Record<string, string | number>;

export function element(
  tag: string,
  attributes: Attributes = {},
  ...children: (Node | string)[]
): SVGElement {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) {
    made.setAttribute(name, typeof value === 'number' ? String(round(value)) : value);
  }
  made.append(...children);
  return made;
}

// A hundredth of a pixel is enough, and keeps paths short.
export const round = (value: number): number => Math.round(value * 100) / 100;

export const line = (x1: number, y1: number, x2: number, y2: number, style: string): SVGElement =>
  element('line', { x1, y1, x2, y2, class: style });

export type Anchor = 'start' | 'middle' | 'end';
export const text = (
  x: number,
  y: number,
  content: string,
  style = '',
  anchor: Anchor = 'start',
): SVGElement => element('text', { x, y, class: style, 'text-anchor': anchor }, content);

// Series' sign, drawn in the box -8..8 around (x, y).
export const mark = (path: string, x: number, y: number, scale = 1): SVGElement =>
  element('path', {
    d: path,
    transform: `translate(${round(x)} ${round(y)})${scale === 1 ? '' : ` scale(${scale})`}`,
    class: 'mark',
  });

// Widths of texts as drawn here: counting characters fails for CJK.
export class Measure {
  private readonly probe = element('text', { visibility: 'hidden' });
  constructor(svg: SVGElement) {
    svg.append(this.probe);
  }
  width(content: string, style = ''): number {
    this.probe.setAttribute('class', style);
    this.probe.textContent = content;
    return (this.probe as SVGTextElement).getComputedTextLength();
  }
  widest(contents: string[], style = ''): number {
    return Math.max(0, ...contents.map((content) => this.width(content, style)));
  }
  // `content`, cut with … where it is wider than `room`.
  clip(content: string, room: number, style = ''): string {
    if (this.width(content, style) <= room) return content;
    const letters = Array.from(content);
    let fits = 0;
    for (let beyond = letters.length; beyond - fits > 1;) {
      const middle = (fits + beyond) >> 1;
      if (this.width(letters.slice(0, middle).join('') + '…', style) <= room) fits = middle;
      else beyond = middle;
    }
    return letters.slice(0, fits).join('').trimEnd() + '…';
  }
  done(): void {
    this.probe.remove();
  }
}
