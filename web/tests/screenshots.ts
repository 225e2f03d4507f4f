/**
 * Screenshots of the documentation, from real runs: `npm run screenshots`. `VIEWER_RUNS` is a folder with two runs of the same tasks,
 * one of them `demo_arithmetic`; `VIEWER_MODEL` is the checkpoint that the live page shows. pngquant makes the files small.
 */
import { execFileSync } from 'node:child_process';
import { rmSync, statSync, symlinkSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import type { RunList } from '../src/lib/api';
import { addressOf, done, folder, launch, start, visit } from './lab';

const runs = process.env.VIEWER_RUNS;
const images = resolve('../docs/images');
const TASK = 'demo_arithmetic';

test('screenshots of finished runs', async () => {
  if (!runs) throw new Error('VIEWER_RUNS is not set');
  // A relative path, so that no picture shows a folder of this machine.
  const server = start(dirname(resolve(runs)), 'view', '--no-open', '--port', '0', basename(resolve(runs)));
  const [url, browser] = await Promise.all([addressOf(server), launch()]);
  try {
    const list = (await (await fetch(`${url}api/runs`)).json()) as RunList;
    const both = list.runs.filter((run) => run.tasks.some((task) => task.task === TASK));
    const [base, other] = both.sort((a, b) => (a.date ?? 0) - (b.date ?? 0));
    if (!base || !other) throw new Error(`two runs with ${TASK} are needed below ${runs}`);
    const choice = base.tasks.find((task) => task.has_samples && task.task !== TASK)?.task ?? TASK;
    const pattern = encodeURIComponent('answer is \\d+');
    const addresses = {
      runs: '#/runs?group=task',
      run: `#/run/${base.id}?task=${TASK}`,
      samples: `#/samples/${base.id}/${TASK}?outcome=wrong&text=${pattern}&regex=1&in=answer`,
      document: `#/sample/${base.id}/${choice}/1`,
      compare: `#/compare?base=${base.id}&new=${other.id}`,
    };
    const page = await visit(browser, url, { viewport: { width: 1280, height: 760 }, colorScheme: 'light' });
    for (const [name, address] of Object.entries(addresses)) {
      await page.goto(`${url}${address}`);
      await page.locator('h1').waitFor();
      await page.waitForFunction(() => !/Loading …|Comparing …/.test(document.body.textContent ?? ''));
      await page.waitForTimeout(500);
      await shoot(page, `view-${name}`);
    }
    await page.goto(
      `${url}#/compare?base=${base.id}&new=${other.id}&task=${TASK}&filter=flexible-extract&metric=exact_match`,
    );
    await page.locator('.change').first().waitFor();
    await page.keyboard.press('j');
    await page.getByRole('heading', { name: 'Answers' }).waitFor();
    await page.waitForTimeout(300);
    await shoot(page, 'view-diff');
    await done(page);
  } finally {
    await browser.close();
    server.kill();
  }
});

test('screenshot of a run in progress', async () => {
  const model = process.env.VIEWER_MODEL;
  if (!model) throw new Error('VIEWER_MODEL is not set');
  // Beside the output, so that the picture shows a name instead of a folder of this machine.
  const home = folder();
  const name = basename(model);
  symlinkSync(resolve(model), join(home, name));
  const args = ['--model', 'hf', '--model_args', `pretrained=${name}`, '--tasks', `demo_sentiment,${TASK}`];
  const run = start(home, 'run', '--view', ...args, '--output_path', 'out');
  const browser = await launch();
  try {
    const page = await visit(browser, await addressOf(run), { viewport: { width: 1280, height: 760 } });
    await page.locator('article').nth(3).waitFor({ timeout: 90_000 });
    await page.waitForTimeout(1000);
    await shoot(page, 'view-live');
    await done(page);
  } finally {
    await browser.close();
    run.kill();
    rmSync(home, { recursive: true, force: true });
  }
});

/** One small file: 256 colours are enough for a page of text. */
async function shoot(page: Page, name: string) {
  const path = join(images, `${name}.png`);
  await page.screenshot({ path });
  execFileSync('pngquant', ['--force', '--skip-if-larger', '--speed', '1', '--strip', '--output', path, '32', path]);
  expect(statSync(path).size, name).toBeLessThan(60_000);
}
