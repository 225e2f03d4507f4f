/** Accessibility, layout on a wide and a narrow screen, and layout shifts, on every page in light and dark. */
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { done, folder, lab, lmEval, type Lab } from './lab';

let world: Lab;
let addresses: Record<string, string>;
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

beforeAll(async () => {
  const home = folder();
  for (const model of ['ngram', 'uniform']) {
    lmEval(home, 'run', '--model', model, '--tasks', 'demo', '--output_path', 'out', '--log_samples', '--quiet');
  }
  lmEval(
    home,
    'run',
    '--model',
    'ngram',
    '--tasks',
    'demo_arithmetic',
    '--output_path',
    'gen',
    '--log_samples',
    '--quiet',
  );
  writeFileSync(
    join(home, 'curve.jsonl'),
    [0, 1000, 2000].map((step) => `{"global_step": ${step}, "a/acc": 0.${3 + step / 1000}, "a/documents": 500}`).join('\n'),
  );
  lmEval(home, 'curve', 'curve.jsonl', '--chance', 'a=0.25', '--output_path', 'curve');
  world = await lab(home, 'out', 'gen', 'curve');
  const list = (await (await fetch(`${world.url}api/runs`)).json()) as {
    runs: { id: string; path: string; tasks: { task: string; has_samples: boolean }[] }[];
  };
  const find = (part: string) => list.runs.find((run) => run.path.includes(part));
  const [base, other, gen] = [
    find('ngram/results'),
    find('uniform'),
    list.runs.find((run) => run.tasks.some((task) => task.task === 'demo_arithmetic')),
  ];
  if (!base || !other || !gen) throw new Error(`runs are missing: ${JSON.stringify(list)}`);
  const choice =
    list.runs.find((run) => run.path.includes('uniform'))?.tasks.find((task) => task.has_samples)?.task ?? '';
  const ngram = list.runs.find((run) => run.path.includes('ngram') && run.tasks.length > 1) ?? base;
  addresses = {
    runs: '#/runs',
    'runs by task': '#/runs?group=task',
    run: `#/run/${ngram.id}`,
    samples: `#/samples/${gen.id}/demo_arithmetic?text=the`,
    generation: `#/sample/${gen.id}/demo_arithmetic/0?ws=1&raw=1`,
    choices: `#/sample/${other.id}/${encodeURIComponent(choice)}/0`,
    curve: `#/curve?score=${encodeURIComponent('a\nnone\nacc')}`,
    compare: `#/compare?base=${ngram.id}&new=${other.id}`,
  };
});
afterAll(() => world?.close());

async function settled(page: Page) {
  await page.locator('h1').first().waitFor();
  await page.waitForFunction(() => !/Loading …|Comparing …/.test(document.body.textContent ?? ''));
  await page.waitForTimeout(150);
}

for (const colorScheme of ['light', 'dark'] as const) {
  test(`axe finds nothing serious (${colorScheme})`, async () => {
    const page = await world.open('', { colorScheme, bypassCSP: true });
    for (const [name, address] of Object.entries(addresses)) {
      await page.goto(`${world.url}${address}`);
      await settled(page);
      await page.evaluate(axe);
      const found = await page.evaluate(async () => {
        const { violations } = await (
          globalThis as unknown as {
            axe: { run(): Promise<{ violations: { id: string; impact: string; nodes: { html: string }[] }[] }> };
          }
        ).axe.run();
        return violations
          .filter((one) => one.impact === 'serious' || one.impact === 'critical')
          .map((one) => `${one.id}: ${one.nodes[0]?.html}`);
      });
      expect(found, name).toEqual([]);
    }
    await done(page);
  });
}

for (const width of [1280, 390]) {
  test(`pages fit ${width} px, and nothing jumps`, async () => {
    for (const [name, address] of Object.entries(addresses)) {
      const page = await world.open(address, { viewport: { width, height: 800 } });
      await settled(page);
      const result = await page.evaluate(() => {
        let shift = 0;
        const observer = new PerformanceObserver(() => undefined);
        observer.observe({ type: 'layout-shift', buffered: true });
        for (const entry of observer.takeRecords()) shift += (entry as unknown as { value: number }).value;
        const { scrollWidth, clientWidth } = document.documentElement;
        return { shift, overflow: scrollWidth - clientWidth };
      });
      expect(result.overflow, name).toBeLessThanOrEqual(0);
      expect(result.shift, name).toBeLessThan(0.1);
      await done(page);
    }
  });
}

test('focus is visible and moves through the controls', async () => {
  const page = await world.open('#/runs');
  await settled(page);
  await page.keyboard.press('Tab');
  expect(await page.evaluate(() => document.activeElement?.textContent)).toBe('Skip to content');
  await page.keyboard.press('Tab');
  const outline = await page.evaluate(() => getComputedStyle(document.activeElement as Element).outlineStyle);
  expect(outline).toBe('solid');
  await done(page);
});
