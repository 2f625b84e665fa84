// main.ts: brings the page to life: theme button, chart. Everything else is in the HTML already.
import { drawThroughput, readRows } from './throughput';

const root = document.documentElement;
const PRINT_WIDTH = 660; // an A4 page between its margins

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

function throughput(): void {
  const figure = document.getElementById('throughput');
  const data = JSON.parse(document.getElementById('report-data')?.textContent ?? '{}');
  const rows = readRows(data.runs ?? [], document.getElementById('throughput-numbers'));
  if (!figure || rows.length === 0) return;
  let drawn = 0;
  const draw = (width: number) => {
    if (width < 1 || Math.abs(width - drawn) < 1) return;
    drawn = width;
    drawThroughput(figure, rows, width);
  };
  draw(figure.clientWidth);
  addEventListener('resize', () => draw(figure.clientWidth));
  addEventListener('beforeprint', () => draw(PRINT_WIDTH));
  addEventListener('afterprint', () => draw(figure.clientWidth));
}

themeButton();
throughput();
root.dataset['ready'] = '1';
