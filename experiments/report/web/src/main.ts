// main.ts: brings the page to life: theme button, pictures. Everything else is in the HTML already.
import { anatomy } from './anatomy';
import { busiest } from './busiest';
import { divergence } from './divergence';
import { load } from './load';
import { loss } from './loss';
import type { RunFile } from './rows';
import { scaling } from './scaling';
import { staleness } from './staleness';
import { throughput } from './throughput';

const root = document.documentElement;
const PRINT_WIDTH = 940; // set to the width of A4, about 680: letters of 13 px become 7 pt

// A picture is drawn where the page has a figure of its name: the program knows which data it has.
type Prepare = (figure: HTMLElement, file: RunFile) => (width: number) => void;
const PICTURES: Record<string, Prepare> = {
  throughput,
  scaling,
  busiest,
  anatomy,
  divergence,
  staleness,
  load,
  loss,
};

// Follows the system until pressed; nothing is stored: storage of file:// is shared or blocked.
function themeButton(): void {
  const button = document.getElementById('theme') as HTMLButtonElement | null;
  if (!button) return;
  const system = matchMedia('(prefers-color-scheme: dark)');
  const dark = () => (root.dataset['theme'] ?? (system.matches ? 'dark' : 'light')) === 'dark';
  const label = () => {
    button.textContent = dark() ? 'Light' : 'Dark';
    button.title = dark() ? 'Show this page in light colours' : 'Show this page in dark colours';
  };
  button.addEventListener('click', () => {
    root.dataset['theme'] = dark() ? 'light' : 'dark';
    label();
  });
  system.addEventListener('change', label);
  label();
  button.hidden = false;
}

function pictures(): void {
  const file: RunFile = JSON.parse(document.getElementById('report-data')?.textContent ?? '{}');
  for (const [id, prepare] of Object.entries(PICTURES)) {
    const figure = document.getElementById(id);
    if (!figure) continue;
    const drawAt = prepare(figure, file);
    let drawn = 0;
    const draw = (width: number) => {
      if (width < 1 || Math.abs(width - drawn) < 1) return;
      drawn = width;
      drawAt(width);
    };
    draw(figure.clientWidth);
    addEventListener('resize', () => draw(figure.clientWidth));
    addEventListener('beforeprint', () => draw(PRINT_WIDTH));
    addEventListener('afterprint', () => draw(figure.clientWidth));
  }
}

themeButton();
pictures();
root.dataset['ready'] = '1';
