/** Curves over hundreds of checkpoints of twenty tasks, and one that grows while it is looked at. */
import { type ChildProcess, execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { addressOf, done, folder, lab, type Lab, lmEval, start, visit } from './lab';

const STEPS = 300;
const TASKS = 20;
const MODEL = resolve('../crates/lmeval-candle/tests/fixtures/llama');

let world: Lab;
let watcher: ChildProcess | undefined;

beforeAll(async () => {
  const home = folder();
  const lines = Array.from({ length: STEPS }, (_, index) => {
    const line: Record<string, number> = { global_step: index * 500 };
    for (let task = 0; task < TASKS; task++) {
      const top = task === 3 ? 0.25 : 0.3 + 0.03 * task;
      const value = 0.25 + (top - 0.25) * (1 - Math.exp(-index / 60)) + 0.01 * Math.sin(index * 7 + task);
      line[`task_${task}/acc`] = Number(value.toFixed(4));
      line[`task_${task}/documents`] = 1000;
    }
    return JSON.stringify(line);
  });
  writeFileSync(join(home, 'pretraining.jsonl'), lines.join('\n'));
  const chances = Array.from({ length: TASKS }, (_, task) => ['--chance', `task_${task}=0.25`]).flat();
  lmEval(home, 'curve', 'pretraining.jsonl', ...chances, '--output_path', 'out');
  world = await lab(home, 'out');
});
afterAll(async () => {
  watcher?.kill('SIGKILL');
  await world?.close();
});

test('hundreds of steps of twenty tasks: charts, tasks at chance, and the steps of one', async () => {
  const page = await world.open();
  await page.getByRole('heading', { name: 'pretraining' }).waitFor();
  expect(page.url()).toContain('#/curve');
  expect(await page.locator('figure').count()).toBe(TASKS);
  await page.getByText('300 steps').waitFor();
  expect(await page.locator('p', { has: page.locator('.chip', { hasText: 'at chance' }) }).first().innerText()).toContain(
    'task_3',
  );
  // Every chart has a band, a line and the level of chance.
  for (const part of ['.band', '.line', '.chance']) expect(await page.locator(`figure ${part}`).count()).toBe(TASKS);
  const chart = page.getByRole('img', { name: 'task_19 acc over 300 steps' });
  await chart.hover({ position: { x: 60, y: 50 } });
  await expect.poll(() => chart.locator('xpath=..').locator('.figures').innerText()).toMatch(/^step [\d,]+: 0\.\d+ \[/);
  await page.getByLabel('Filter tasks').fill('task_1');
  await expect.poll(() => page.locator('figure').count()).toBe(11);
  await page.locator('figure').getByRole('link', { name: 'task_19', exact: true }).click();
  const table = page.getByRole('table', { name: 'task_19 acc' });
  await table.waitFor();
  expect(await table.locator('tbody tr').count()).toBe(30);
  await page.getByRole('button', { name: 'Show all 300 steps' }).click();
  await expect.poll(() => table.locator('tbody tr').count()).toBe(STEPS);
  // The address has it all.
  const again = await world.open(page.url().slice(page.url().indexOf('#')));
  await again.getByRole('table', { name: 'task_19 acc' }).waitFor();
  expect(await again.locator('figure').count()).toBe(11);
  await done(again);
  await page.getByRole('combobox', { name: /^Steps/ }).selectOption('log');
  await page.locator('figure .line').first().waitFor();
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: 'Save as SVG' }).click(),
  ]);
  expect(download.suggestedFilename()).toBe('pretraining.svg');
  await done(page);
});

/** Waits until a page has painted, and returns when it first did, in milliseconds after its address was opened. */
async function firstPaint(page: Page): Promise<number> {
  const paint = () =>
    page.evaluate(() => performance.getEntriesByName('first-contentful-paint').map((entry) => entry.startTime));
  await expect.poll(async () => (await paint()).length).toBe(1);
  return (await paint())[0] ?? NaN;
}

/** The number of pixels of a picture that have about this color, such as `rgb(0, 90, 160)`. */
async function pixels(picture: Buffer, color: string): Promise<number> {
  const page = await world.browser.newPage();
  const count = await page.evaluate(
    async ([source, wanted]) => {
      const image = new Image();
      image.src = `data:image/png;base64,${source}`;
      await image.decode();
      const canvas = new OffscreenCanvas(image.width, image.height);
      const context = canvas.getContext('2d');
      if (!context) throw new Error('no canvas');
      context.drawImage(image, 0, 0);
      const data = context.getImageData(0, 0, image.width, image.height).data;
      const parts = (wanted ?? '').match(/\d+/g)?.map(Number) ?? [];
      let found = 0;
      for (let at = 0; at < data.length; at += 4)
        found += Number([0, 1, 2].every((part) => Math.abs((data[at + part] ?? 0) - (parts[part] ?? 0)) < 24));
      return found;
    },
    [picture.toString('base64'), color],
  );
  await page.close();
  return count;
}

test('both pages paint hundreds of steps of twenty tasks', async () => {
  const disk = join(world.home, 'painted.html');
  lmEval(world.home, 'report', 'out/curve.steps.json', '-o', disk);
  const pages: [string, () => Promise<Page>][] = [
    ['server', () => world.open()],
    ['report', () => visit(world.browser, `file://${disk}`)],
  ];
  for (const [name, open] of pages) {
    const page = await open();
    console.info(`${name}: first paint after ${Math.round(await firstPaint(page))} ms`);
    const charts = page.locator('figure');
    await expect.poll(() => charts.count()).toBe(TASKS);
    for (const index of [0, TASKS - 1]) {
      const chart = charts.nth(index);
      await chart.scrollIntoViewIfNeeded();
      const line = chart.locator('.line').first();
      const color = await line.evaluate((element) => getComputedStyle(element).stroke);
      const drawn = await pixels(await chart.screenshot(), color);
      await line.evaluate((element) => element.setAttribute('visibility', 'hidden'));
      // A line over 300 steps is hundreds of pixels. Other parts of a chart have its color, too.
      expect(drawn - (await pixels(await chart.screenshot(), color))).toBeGreaterThan(100);
    }
    await done(page);
  }
});

test('a report of a curve opens from disk', async () => {
  lmEval(world.home, 'report', 'out/curve.steps.json', '-o', 'curve.html');
  const page = await visit(world.browser, `file://${join(world.home, 'curve.html')}`);
  await page.getByRole('heading', { name: 'pretraining' }).waitFor();
  expect(await page.locator('figure').count()).toBe(TASKS);
  await done(page);
});

test('the page follows a watcher', async () => {
  const ck = join(world.home, 'ck');
  const write = (step: number) => {
    const temporary = join(ck, `tmp-checkpoint-${step}`);
    mkdirSync(temporary, { recursive: true });
    for (const name of ['config.json', 'tokenizer.json', 'tokenizer_config.json', 'model.safetensors'])
      cpSync(join(MODEL, name), join(temporary, name));
    execFileSync('mv', [temporary, join(ck, `checkpoint-${step}`)]);
  };
  write(100);
  watcher = start(
    world.home,
    ...['watch', 'ck', '--tasks', 'demo_capitals', '--device', 'cpu', '--view'],
    ...['--limit', '5', '--settle', '0.05', '--poll', '0.1'],
  );
  const page = await visit(world.browser, await addressOf(watcher));
  await page.getByRole('heading', { name: 'ck' }).waitFor();
  // An evaluation may take longer than a page, beside other tests.
  await page.getByRole('status').getByText('live · 1 step').waitFor({ timeout: 60_000 });
  write(200);
  await page.getByRole('status').getByText('live · 2 steps').waitFor({ timeout: 60_000 });
  watcher.kill('SIGTERM');
  await done(page);
  rmSync(ck, { recursive: true, force: true });
}, 150_000);
