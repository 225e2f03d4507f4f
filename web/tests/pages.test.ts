/** Every page, its filters and its links, over runs that the command has made. */
import { execFileSync } from 'node:child_process';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { BINARY, column, done, folder, generation, lab, lmEval, writeRun, type Lab } from './lab';

let world: Lab;

beforeAll(async () => {
  const home = folder();
  const tasks = 'demo_arithmetic,demo_capitals,demo_prose';
  for (const model of ['ngram', 'uniform']) {
    lmEval(
      home,
      'run',
      '--model',
      model,
      '--tasks',
      tasks,
      '--num_fewshot',
      '2',
      '--output_path',
      'out',
      '--log_samples',
      '--quiet',
    );
  }
  const many = Array.from({ length: 20_000 }, (_, id) =>
    generation(id, `Question ${id}: which number follows ${id - 1}?`, id % 3 ? `It is ${id}.` : '', id % 3 ? 1 : 0, {
      question: `q${id}`,
      subject: ['law', 'art'][id % 2],
    }),
  );
  writeRun(home, { folder: 'many', model: 'many', task: 'numbers', samples: many });
  world = await lab(home, 'out', 'many');
});
afterAll(() => world?.close());

test('runs: sort, filter, group, and tick to compare', async () => {
  const page = await world.open();
  await page.getByText('3 runs').waitFor();
  await page.getByRole('button', { name: 'Model' }).click();
  await expect.poll(() => column(page, 'Model')).toEqual(['many', 'ngram', 'uniform']);
  await page.getByRole('button', { name: 'Model' }).click();
  await expect.poll(() => column(page, 'Model')).toEqual(['uniform', 'ngram', 'many']);
  await page.getByLabel('Group by').selectOption('task');
  await page.locator('.heading', { hasText: 'demo_capitals' }).waitFor();
  expect((await column(page, 'Score')).filter((text) => text.startsWith('acc'))).not.toHaveLength(0);
  await page.getByLabel('Group by').selectOption('');
  await page.keyboard.press('/');
  await page.keyboard.type('demo_capitals');
  await page.getByText('2 of 3 runs').waitFor();
  expect(page.url()).toContain('q=demo_capitals');
  for (const box of await page.getByRole('checkbox').all()) await box.check();
  await page.getByRole('link', { name: 'Compare 2 runs' }).click();
  await page.getByRole('heading', { name: /against/ }).waitFor();
  await page.goBack();
  await page.getByText('2 of 3 runs').waitFor();
  await done(page);
});

test('run: scores with intervals, audit, histograms, resolved task and settings', async () => {
  const page = await world.open('#/runs?q=ngram');
  await page.getByRole('link', { name: 'ngram' }).click();
  const scores = page.locator('table.scores');
  await scores.waitFor();
  expect(await scores.textContent()).toContain('0.3000');
  await page.getByRole('img', { name: /0\.3000, 95 % interval 0\.\d+ to 0\.\d+/ }).waitFor();
  // The audit is in the row of the score it affects, and leads to the answers.
  const row = scores.locator('tr', { hasText: 'not matched by a filter' }).first();
  expect(await row.textContent()).toContain('exact_match');
  const flagged = row.getByRole('link', { name: /not matched by a filter/ });
  await page.getByRole('img', { name: /^Prompt length: \d+ values/ }).waitFor();
  await page.getByText('Resolved task').click();
  await page.getByRole('table', { name: 'Resolved task' }).getByText('generate_until').waitFor();
  await page.getByRole('table', { name: 'Settings' }).getByText('bootstrap_iters').waitFor();
  await page.getByRole('combobox', { name: 'Task' }).selectOption('demo_capitals');
  await page.getByRole('img', { name: /^acc_norm: 40 values/ }).waitFor();
  await flagged.click();
  await page.getByRole('heading', { name: 'demo_arithmetic' }).waitFor();
  expect(page.url()).toContain('flag=unextracted');
  await page.getByText('[invalid]').first().waitFor();
  await done(page);
});

async function openSamples(query = '') {
  const page = await world.open('#/runs?q=numbers');
  const address = await page.getByRole('link', { name: 'many' }).getAttribute('href');
  const id = address?.split('/')[2] ?? '';
  await page.goto(`${page.url().split('#')[0]}#/samples/${id}/numbers${query}`);
  await page.reload();
  await page.getByRole('row').nth(1).waitFor();
  return page;
}

test('samples: filters by outcome, flag, field, expression, text and regex', async () => {
  const page = await openSamples();
  await page.getByText('20,000 samples').waitFor();
  await page.getByRole('combobox', { name: 'Outcome', exact: true }).selectOption('wrong');
  await page.getByText('6,667 of 20,000 samples').waitFor();
  await expect.poll(async () => [...new Set(await column(page, 'Outcome'))]).toEqual(['wrong']);
  await page.getByLabel('Flag').selectOption('empty');
  await page.getByText('6,667 of 20,000 samples').waitFor();
  await page.getByRole('button', { name: 'Clear' }).click();
  await page.getByText('20,000 samples').waitFor();

  await page.getByRole('combobox', { name: 'Field' }).selectOption('subject');
  await page.getByLabel('Value of the field').fill('law');
  await page.getByText('10,000 of 20,000 samples').waitFor();
  await page.getByLabel('Filter by expression').fill('doc_id < 10 and acc == 1');
  await page.keyboard.press('Enter');
  await page.getByText('3 of 20,000 samples').waitFor();
  await expect.poll(() => column(page, 'Id')).toEqual(['2', '4', '8']);
  await page.getByRole('button', { name: 'Clear' }).click();

  const search = page.getByLabel('Search in whole prompts');
  await search.fill('follows 19998?');
  await page.getByText('1 of 20,000 samples').waitFor();
  await expect.poll(() => column(page, 'Id')).toEqual(['19999']);
  expect(await page.locator('mark').textContent()).toBe('follows 19998?');
  await search.fill('it is 1999[0-9]\\.$');
  await page.getByText('0 of 20,000 samples').waitFor();
  await page.getByLabel('regex').check();
  await page.getByText('7 of 20,000 samples').waitFor();
  await page.getByLabel('case').check();
  await page.getByText('0 of 20,000 samples').waitFor();
  await search.fill('(');
  await page
    .getByRole('alert')
    .getByText(/regular expression/i)
    .first()
    .waitFor();
  await done(page);
});

test('samples: an expression with a mistake is explained', async () => {
  const page = await openSamples('?where=nothing_like_it%20%3D%3D%201');
  await page
    .getByRole('alert')
    .getByText(/nothing_like_it/)
    .waitFor();
  await done(page);
});

test('samples: the grid reaches the last of 20,000 rows, and sorts', async () => {
  const page = await openSamples();
  await page.getByText('20,000 samples').waitFor();
  expect(await page.getByRole('row').count()).toBeLessThan(60);
  await page.keyboard.press('End');
  await page.getByRole('link', { name: '19999', exact: true }).waitFor();
  await page.getByRole('button', { name: 'Id' }).click();
  await page.getByRole('button', { name: 'Id' }).click();
  expect(page.url()).toContain('sort=-doc_id');
  await page.keyboard.press('Home');
  await page.getByRole('link', { name: '19999', exact: true }).waitFor();
  await expect.poll(async () => (await column(page, 'Id'))[0]).toBe('19999');
  await done(page);
});

test('deep link: a reload and another browser show the same rows, and the keyboard opens and returns', async () => {
  const page = await openSamples('?outcome=wrong&text=Question&sort=-doc_id');
  await page.getByText('6,667 of 20,000 samples').waitFor();
  await page.keyboard.press('j');
  await page.keyboard.press('j');
  await page.locator('.body.active').waitFor();
  const rows = await column(page, 'Id');
  const other = await world.open();
  await other.goto(page.url());
  await other.getByText('6,667 of 20,000 samples').waitFor();
  await expect.poll(() => column(other, 'Id')).toEqual(rows);
  await other.locator('[aria-current=true].active').waitFor();
  await other.keyboard.press('Enter');
  await other.getByRole('heading', { name: `Document ${rows[1]}` }).waitFor();
  await other.getByText('2 of 6,667').waitFor();
  await other.keyboard.press('j');
  await other.getByRole('heading', { name: `Document ${rows[2]}` }).waitFor();
  await other.keyboard.press('ArrowLeft');
  await other.getByRole('heading', { name: `Document ${rows[1]}` }).waitFor();
  await other.keyboard.press('u');
  await other.getByText('6,667 of 20,000 samples').waitFor();
  expect(other.url()).toContain('outcome=wrong');
  await done(other);
  await done(page);
});

async function openDocument(task: string, row: number) {
  const page = await world.open('#/runs?q=ngram');
  const id = (await page.getByRole('link', { name: 'ngram' }).getAttribute('href'))?.split('/')[2];
  await page.goto(`${page.url().split('#')[0]}#/sample/${id}/${task}/${row}`);
  await page.getByRole('heading', { name: /^Document \d/ }).waitFor();
  return page;
}

test('document: few-shot boundaries, whitespace, answer, filter steps and the raw record', async () => {
  const page = await openDocument('demo_arithmetic', 3);
  await page.getByRole('heading', { name: 'Prompt' }).waitFor();
  const labels = await page.locator('.part .label').allTextContents();
  expect(labels).toEqual(['Example 1', 'Example 2', 'Question']);
  expect(await page.locator('.space').count()).toBe(0);
  await page.keyboard.press('w');
  expect(await page.locator('.part .space').count()).toBeGreaterThan(10);
  expect(page.url()).toContain('ws=1');
  await page.getByRole('heading', { name: 'Filter steps' }).waitFor();
  await page.getByText('[invalid]').first().waitFor();
  await page.getByText('Generation settings').click();
  await page.getByText('"max_gen_toks": 200').waitFor();
  await page.keyboard.press('r');
  await page.locator('details.card').getByText('"doc_id"').waitFor();
  await page.getByRole('link', { name: 'flexible-extract' }).click();
  await page.getByText('flexible-extract').first().waitFor();
  await done(page);
});

test('document: choices with log-likelihoods, probabilities and the right one', async () => {
  const page = await openDocument('demo_capitals', 0);
  const table = page.getByRole('table', { name: 'Choices' });
  await table.waitFor();
  expect(await table.locator('tbody tr').count()).toBeGreaterThan(2);
  expect(await table.locator('tr.gold').count()).toBe(1);
  await table.getByText('chosen', { exact: true }).waitFor();
  const shares = await table.locator('.probability').allTextContents();
  const sum = shares.reduce((total, text) => total + Number.parseFloat(text), 0);
  expect(sum).toBeGreaterThan(99);
  expect(sum).toBeLessThan(101);
  await done(page);
});

test('compare: the numbers of `lm-eval compare`, changed documents and diff', async () => {
  const page = await world.open('#/runs?sort=name');
  const id = async (name: string) =>
    (await page.getByRole('link', { name, exact: true }).getAttribute('href'))?.split('/')[2];
  const [base, other] = [await id('ngram'), await id('uniform')];
  await page.goto(`${page.url().split('#')[0]}#/compare?base=${base}&new=${other}`);
  await page.getByRole('heading', { name: 'uniform against ngram' }).waitFor();
  const printed = execFileSync(BINARY, ['compare', 'out/ngram', 'out/uniform', '--format', 'csv'], {
    cwd: world.home,
    encoding: 'utf8',
  });
  const cells = printed.split('\n').find((line) => line.includes('demo_capitals') && line.includes('acc,'));
  const shown = await page.locator('tr', { hasText: 'demo_capitals' }).first().textContent();
  const difference = /[−+]0\.\d{4}/.exec(shown ?? '')?.[0].replace('−', '-') ?? 'none';
  expect(cells).toContain(difference.replace(/^\+/, '').replace(/0+$/, ''));
  await page.getByRole('img', { name: /^demo_capitals acc: ngram 0\.3000, uniform/ }).waitFor();
  await page.getByRole('link', { name: /changed documents of demo_capitals acc$/ }).click();
  await page.getByRole('heading', { name: 'Changed documents: demo_capitals, acc' }).waitFor();
  await page.getByRole('button', { name: /^Down/ }).click();
  await page.locator('.change.down').first().waitFor();
  await expect.poll(() => page.locator('.change.up').count()).toBe(0);
  await page.keyboard.press('j');
  await page.getByRole('heading', { name: 'Answers' }).waitFor();
  expect(page.url()).toMatch(/doc=\d+-\d+/);
  await page.reload();
  await page.getByRole('heading', { name: 'Answers' }).waitFor();
  await page.getByRole('link', { name: 'ngram: document' }).click();
  await page.getByRole('heading', { name: /^Document \d/ }).waitFor();
  await done(page);
});

test('keyboard: help lists the commands of the page, and sequences move between pages', async () => {
  const page = await openSamples();
  await page.keyboard.press('?');
  const help = page.getByRole('dialog', { name: 'Keyboard' });
  await help.getByText('Only wrong ones, or all').waitFor();
  await page.keyboard.press('Escape');
  await help.waitFor({ state: 'hidden' });
  await page.keyboard.press('w');
  await page.getByText('6,667 of 20,000 samples').waitFor();
  await page.keyboard.press('g');
  await page.keyboard.press('r');
  await page.getByRole('heading', { name: 'Runs' }).waitFor();
  await done(page);
});

test('an address that leads nowhere says so', async () => {
  const page = await world.open('#/run/nothing');
  await page.getByRole('alert').waitFor();
  await page.goto(`${page.url().split('#')[0]}#/elsewhere`);
  await page.getByRole('heading', { name: 'No such page' }).waitFor();
  await done(page);
});
