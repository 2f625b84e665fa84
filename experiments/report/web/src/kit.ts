// kit.ts: what every chart needs and nothing a chart decides: SVG elements, ticks, measured text,
// the readout. Lengths in CSS pixels. No library.

const SVG = 'http://www.w3.org/2000/svg';

export type Attributes = Record<string, string | number>;

export function element(
  tag: string,
  attributes: Attributes = {},
  ...children: (Node | string)[]
): SVGElement {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) {
    made.setAttribute(
      name,
      typeof value === 'number' ? String(Math.round(value * 100) / 100) : value,
    );
  }
  made.append(...children);
  return made;
}

// Round values from 0 to at least `largest`: steps of 1, 2 or 5 times a power of ten.
export function ticks(largest: number, about: number): number[] {
  const raw = largest / Math.max(1, about);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * ([1, 2, 5].find((factor) => factor * power >= raw) ?? 10);
  const count = Math.ceil(largest / step - 1e-9);
  return Array.from({ length: count + 1 }, (_, i) => i * step);
}

const tickFormat = new Intl.NumberFormat('en', { maximumSignificantDigits: 6 });
export const tickText = (value: number): string => tickFormat.format(value);

// Widths of texts as this page draws them: counting characters fails for CJK.
export class Measure {
  private readonly probe = element('text', { visibility: 'hidden' });
  constructor(svg: SVGElement) {
    svg.append(this.probe);
  }
  width(text: string, style = ''): number {
    this.probe.setAttribute('class', style);
    this.probe.textContent = text;
    return (this.probe as SVGTextElement).getComputedTextLength();
  }
  // `text`, cut with … where it is wider than `room`.
  clip(text: string, room: number, style = ''): string {
    if (this.width(text, style) <= room) return text;
    const letters = Array.from(text);
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

// One value that can be read out: by pointer or by arrow keys.
export interface Reading {
  x: number;
  y: number;
  group: number; // up and down go from group to group
  text: string;
}

// Makes a chart readable: ← → from value to value, ↑ ↓ from group to group, Home, End,
// or the pointer. What is read stands in `line`, a live region.
export class Readout {
  private at = -1;
  private readonly ring = element('circle', { r: 11, class: 'focus-ring', visibility: 'hidden' });

  constructor(
    private readonly svg: SVGSVGElement,
    private readonly readings: Reading[],
    private readonly line: HTMLElement,
  ) {
    svg.append(this.ring);
    svg.setAttribute('tabindex', '0');
    svg.addEventListener('keydown', (event) => this.key(event));
    svg.addEventListener('pointermove', (event) => this.pointer(event));
    svg.addEventListener('pointerdown', (event) => this.pointer(event));
  }

  private show(index: number): void {
    const reading = this.readings[index];
    if (!reading || index === this.at) return;
    this.at = index;
    this.ring.setAttribute('cx', String(reading.x));
    this.ring.setAttribute('cy', String(reading.y));
    this.ring.setAttribute('visibility', 'visible');
    this.line.textContent = reading.text;
  }

  private key(event: KeyboardEvent): void {
    const last = this.readings.length - 1;
    const targets: Record<string, number> = {
      ArrowRight: Math.min(last, this.at + 1),
      ArrowLeft: Math.max(0, this.at - 1),
      ArrowDown: this.neighbour(1),
      ArrowUp: this.neighbour(-1),
      Home: 0,
      End: last,
    };
    const target = targets[event.key];
    if (target === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault(); // the page would scroll
    this.show(target);
  }

  // The first reading of the next or the previous group.
  private neighbour(step: number): number {
    const group = (this.readings[this.at]?.group ?? -1) + step;
    const found = this.readings.findIndex((reading) => reading.group === group);
    return found < 0 ? Math.max(0, this.at) : found;
  }

  private pointer(event: PointerEvent): void {
    const box = this.svg.getBoundingClientRect();
    const scale = this.svg.viewBox.baseVal.width / box.width;
    const x = (event.clientX - box.left) * scale;
    const y = (event.clientY - box.top) * scale;
    // Rows first: a step up or down counts twice.
    const distance = (reading: Reading) => Math.hypot(reading.x - x, 2 * (reading.y - y));
    let nearest = 0;
    this.readings.forEach((reading, i) => {
      if (distance(reading) < distance(this.readings[nearest] as Reading)) nearest = i;
    });
    this.show(nearest);
  }
}
