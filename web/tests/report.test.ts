/** A report opened from disk, without a server. */
import { readFileSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { column, done, folder, generation, launch, lmEval, visit, writeRun } from './lab';

let browser: Browser;
const home = folder();
const file = join(home, 'report.html');
const HOSTILE = '</script><script>document.title="owned"</script><!-- ';

beforeAll(async () => {
  for (const model of ['ngram', 'uniform']) {
    lmEval(
      home,
      'run',
      '--model',
      model,
      '--tasks',
      'demo_arithmetic,demo_capitals',
      '--output_path',
      'out',
      '--log_samples',
      '--quiet',
    );
  }
  lmEval(home, 'report', 'out/ngram', 'out/uniform', '-o', file);
  browser = await launch();
});
afterAll(async () => {
  await browser?.close();
  rmSync(home, { recursive: true, force: true });
});

const open = () => visit(browser, pathToFileURL(file).href);

test('it is one file that asks for nothing', async () => {
  const html = readFileSync(file, 'utf8');
  expect(html).toContain('Content-Security-Policy');
  expect(html).not.toMatch(/(?:src|href)="(?!data:|#)/);
  expect(statSync(file).size).toBeLessThan(1_000_000);
  const page = await open();
  // A report of two runs is about their difference.
  await page.getByRole('heading', { name: 'uniform against ngram' }).waitFor();
  expect(await page.evaluate(() => performance.getEntriesByType('resource').map((entry) => entry.name))).toEqual([]);
  await done(page);
});

test('every page works from disk', async () => {
  const page = await open();
  await page.getByRole('link', { name: 'Runs', exact: true }).first().click();
  await page.getByRole('link', { name: 'ngram', exact: true }).click();
  await page.locator('table.scores').waitFor();
  await page.getByRole('img', { name: /^Answer length/ }).waitFor();
  await page.getByRole('link', { name: 'Samples of demo_capitals' }).click();
  await page.getByText('40 samples').waitFor();
  await page.getByRole('combobox', { name: 'Outcome', exact: true }).selectOption('right');
  await page.getByText('12 of 40 samples').waitFor();
  await expect.poll(async () => [...new Set(await column(page, 'Outcome'))]).toEqual(['right']);
  await page.getByLabel('Search in whole prompts').fill('capital');
  await page.locator('mark').first().waitFor();
  await page.keyboard.press('Escape');
  await page.keyboard.press('j');
  await page.keyboard.press('Enter');
  await page.getByRole('table', { name: 'Choices' }).waitFor();
  await page.getByText('1 of 12').waitFor();
  await page.keyboard.press('j');
  await page.getByText('2 of 12').waitFor();
  const address = page.url();
  await page.goto('about:blank');
  await page.goto(address);
  await page.getByText('2 of 12').waitFor();
  await page.keyboard.press('g');
  await page.keyboard.press('r');
  await page.getByRole('link', { name: 'Compare 2 runs' }).click();
  await page.getByRole('heading', { name: 'uniform against ngram' }).waitFor();
  await page.locator('.change').first().waitFor();
  await done(page);
});

test('it prints: all rows, no controls', async () => {
  const page = await open();
  await page.getByRole('link', { name: 'Runs', exact: true }).first().click();
  await page.getByRole('link', { name: 'ngram', exact: true }).click();
  await page.getByRole('link', { name: 'Samples of demo_arithmetic' }).click();
  await page.getByText(/\d+ samples/).waitFor();
  await page.emulateMedia({ media: 'print' });
  await page.evaluate(() => dispatchEvent(new Event('beforeprint')));
  expect(await page.locator('.toolbar').isVisible()).toBe(false);
  const total = Number(/(\d+) samples/.exec(await page.locator('[role=status]').first().innerText())?.[1]);
  expect(await page.locator('.body[role=row]').count()).toBe(total);
  const pdf = await page.pdf();
  expect(pdf.subarray(0, 5).toString()).toBe('%PDF-');
  await done(page);
});

test('strings that end a script element stay data', async () => {
  writeRun(home, { folder: 'hostile', model: 'm', task: 'hostile', samples: [generation(0, HOSTILE, HOSTILE, 0)] });
  const hostile = join(home, 'hostile.html');
  lmEval(home, 'report', 'hostile', '-o', hostile);
  const page = await visit(browser, `${pathToFileURL(hostile).href}`);
  await page.getByRole('link', { name: 'Samples of hostile' }).click();
  await page.getByRole('link', { name: '0', exact: true }).click();
  await page.getByText(HOSTILE.trim()).first().waitFor();
  expect(await page.title()).not.toBe('owned');
  await done(page);
});
