// readout.ts: reads one value at a time, by pointer or by keys, into a live line of text.

import { element } from './svg';

export interface Reading {
  x: number;
  y: number;
  group: number; // up and down go from group to group
  text: string;
}

export const HINT = 'Point at the picture, or focus it and press ← → ↑ ↓, to read exact values.';

// ← → from value to value, ↑ ↓ from group to group, Home, End, or the pointer.
export class Readout {
  private at = -1;
  private readonly ring = element('circle', { r: 11, class: 'focus-ring', visibility: 'hidden' });

  constructor(
    private readonly svg: SVGSVGElement,
    private readonly readings: Reading[],
    private readonly line: HTMLElement,
    private readonly rows: boolean, // groups are rows: a step up or down counts twice
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

  // In the next or the previous group: its first reading, or, along lines, the nearest in x.
  private neighbour(step: number): number {
    const now = this.readings[this.at];
    const group = (now?.group ?? -1) + step;
    const away = (i: number) => Math.abs((this.readings[i]?.x ?? 0) - (now?.x ?? 0));
    let found = -1;
    this.readings.forEach((reading, i) => {
      if (reading.group !== group) return;
      if (found < 0 || (!this.rows && away(i) < away(found))) found = i;
    });
    return found < 0 ? Math.max(0, this.at) : found;
  }

  private pointer(event: PointerEvent): void {
    const box = this.svg.getBoundingClientRect();
    const scale = this.svg.viewBox.baseVal.width / box.width;
    const x = (event.clientX - box.left) * scale;
    const y = (event.clientY - box.top) * scale;
    const distance = (reading: Reading) =>
      Math.hypot(reading.x - x, (this.rows ? 2 : 1) * (reading.y - y));
    let nearest = 0;
    this.readings.forEach((reading, i) => {
      if (distance(reading) < distance(this.readings[nearest] as Reading)) nearest = i;
    });
    this.show(nearest);
  }
}
