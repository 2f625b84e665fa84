// harness.mjs: a browser, the pages of the golden run files, and a list of what held.
import { createRequire } from 'node:module';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { tmpdir } from 'node:os';
import { pathToFileURL } from 'node:url';
import { chromium } from 'playwright-core';

const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];
const [executablePath, pages] = process.argv.slice(2);

export const GOLDEN = [
  'normal',
  'sweep',
  'exact',
  'one',
  'failed',
  'aborted',
  'empty',
  'hostile',
  'many',
  'withheld',
];
export const AXE = await readFile(
  createRequire(import.meta.url).resolve('axe-core/axe.min.js'),
  'utf8',
);

let failures = 0;
export const failed = () => failures;
export function expect(what, good, detail = '') {
  console.log(`${good ? 'ok  ' : 'FAIL'} ${what}${good ? '' : `: ${detail}`}`);
  if (!good) failures += 1;
}

// Runs `use` with a browser of its own, which leaves nothing behind.
export async function withBrowser(options, use) {
  const profile = await mkdtemp(join(tmpdir(), 'lockstep-browser-'));
  const browser = await chromium.launchPersistentContext(profile, {
    executablePath,
    headless: true,
    args: FLAGS,
    offline: true,
    ...options,
  });
  try {
    await use(browser);
  } finally {
    await browser.close();
    await rm(profile, { recursive: true, force: true });
  }
}

// The page of one golden run file, with everything it said and asked for on the way.
export async function open(browser, name, width = 1280, scheme = 'light') {
  const page = await browser.newPage();
  const said = [];
  const requests = [];
  page.on('console', (message) => said.push(`console: ${message.text()}`));
  page.on('pageerror', (error) => said.push(`error: ${error.message}`));
  page.on('dialog', (dialog) => {
    said.push(`dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  page.on('request', (request) => requests.push(request.url()));
  await page.setViewportSize({ width, height: 900 });
  await page.emulateMedia({ colorScheme: scheme });
  await page.goto(pathToFileURL(join(pages, `${name}.html`)).href);
  return { page, said, requests };
}

// The same, once its script has run.
export async function openReady(browser, name, width = 1280, scheme = 'light') {
  const opened = await open(browser, name, width, scheme);
  await opened.page.waitForSelector('html[data-ready="1"]', { state: 'attached', timeout: 10_000 });
  return opened;
}

export const bytesOf = async (name) => (await readFile(join(pages, `${name}.html`))).length;
export const dataOf = async (page) => JSON.parse(await page.textContent('#report-data'));
