// picture.ts: the frame of every picture: an SVG with title and description, and the line that is
// read out. Title and description come from the page: the section's heading and the figure's data.

import { HINT, Readout, type Reading } from './readout';
import { Measure, element } from './svg';

export class Picture {
  readonly svg: SVGSVGElement;
  readonly measure: Measure;
  readonly readings: Reading[] = [];
  private readonly line = document.createElement('p');

  // Replaces the picture that stands in `figure`.
  constructor(
    figure: HTMLElement,
    readonly width: number,
  ) {
    const id = figure.id;
    this.svg = element('svg', {
      role: 'img',
      'aria-labelledby': `${id}-svg-title ${id}-svg-desc`,
      class: 'chart',
    }) as SVGSVGElement;
    const heading = document.getElementById(`${id}-title`)?.textContent ?? '';
    this.svg.append(
      element('title', { id: `${id}-svg-title` }, heading),
      element('desc', { id: `${id}-svg-desc` }, figure.dataset['description'] ?? ''),
    );
    this.line.className = 'readout';
    this.line.setAttribute('role', 'status');
    this.line.textContent = HINT;
    figure.replaceChildren(this.svg, this.line);
    this.measure = new Measure(this.svg);
  }

  add(...parts: (SVGElement | null)[]): void {
    this.svg.append(...parts.filter((part): part is SVGElement => part !== null));
  }

  // The last call. `rows`: the readings' groups are rows of the picture.
  finish(height: number, rows: boolean): void {
    this.svg.setAttribute('viewBox', `0 0 ${this.width} ${Math.ceil(height)}`);
    this.measure.done();
    new Readout(this.svg, this.readings, this.line, rows);
  }
}
