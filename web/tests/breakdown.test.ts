/** A comparison broken down by a field of the documents. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { RunList } from '../src/lib/api';
import { done, folder, lab, lmEval, type Lab } from './lab';

let world: Lab;

beforeAll(async () => {
  const home = folder();
  for (const model of ['ngram', 'uniform']) {
    lmEval(
      home,
      'run',
      '--model',
      model,
      '--tasks',
      'demo_capitals',
      '--output_path',
      'out',
      '--log_samples',
      '--quiet',
    );
  }
  world = await lab(home, 'out');
});
afterAll(() => world?.close());

test('the table has one row per value, and the address names the field', async () => {
  const { runs } = (await (await fetch(`${world.url}api/runs`)).json()) as RunList;
  const [base, other] = runs.filter((run) => run.kind === 'results');
  const page = await world.open(`#/compare?base=${base?.id}&new=${other?.id}`);
  await page.getByLabel('Field of the breakdown').selectOption('country');
  await page.getByRole('table', { name: 'By field' }).locator('tbody tr').nth(39).waitFor();
  expect(page.url()).toContain('by=country');
  await done(page);
});
