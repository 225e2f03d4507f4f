/** Pages as components, over invented answers; the browser tests use the real server. */
import { flushSync, mount, unmount } from 'svelte';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { answer, HOSTILE, SIZE } from '../../tests/mock';
import App from '../App.svelte';
import { go, href } from '../lib/router.svelte';

let app: ReturnType<typeof mount> | undefined;
const requests: string[] = [];

beforeEach(() => {
  requests.length = 0;
  vi.stubGlobal('fetch', (address: string) => {
    requests.push(address);
    const found = answer(address);
    return Promise.resolve(
      Response.json(found ?? { error: 'No such run', hint: 'Reload the list' }, { status: found ? 200 : 404 }),
    );
  });
});

afterEach(() => {
  if (app) void unmount(app);
  document.body.replaceChildren();
});

async function open(address: string): Promise<HTMLElement> {
  go(address);
  app = mount(App, { target: document.body });
  await settle();
  return document.body;
}

/** Lets pending fetches arrive, a few times because answers lead to further requests. */
async function settle() {
  for (let round = 0; round < 6; round++) {
    await new Promise((resolve) => setTimeout(resolve, 0));
    flushSync();
  }
}

function press(key: string) {
  window.dispatchEvent(new KeyboardEvent('keydown', { key, cancelable: true }));
  flushSync();
}

test('the list of runs shows scores, flags and files that cannot be read', async () => {
  const body = await open(href(['runs']));
  expect(body.textContent).toContain('large-model');
  expect(body.textContent).toContain('0.7500');
  expect(body.textContent).toContain('1 file could not be read');
});

test('runs and tasks as a matrix, with the best score of each task in bold', async () => {
  const body = await open(href(['runs'], { view: 'matrix' }));
  const table = body.querySelector('table[aria-label="Scores of runs by task"]');
  expect([...(table?.querySelectorAll('thead th') ?? [])].map((cell) => cell.textContent)).toEqual(['Model', 'questions']);
  expect(table?.querySelectorAll('tbody tr').length).toBe(2);
  expect([...(table?.querySelectorAll('.best') ?? [])].map((cell) => cell.textContent)).toEqual(['0.7500']);
});

test('scores of tasks with unanswered documents are marked in the list and in the matrix', async () => {
  for (const query of [{}, { view: 'matrix' }]) {
    const body = await open(href(['runs'], query));
    const marks = [...body.querySelectorAll('.bad[title*="have no answer"]')];
    expect(marks.map((mark) => mark.textContent)).toContain('*');
    expect(marks[0]?.getAttribute('title')).toContain('28 of its documents');
    if (app) void unmount(app);
    document.body.replaceChildren();
  }
});

test('ticked runs lead to a comparison', async () => {
  const body = await open(href(['runs'], { tick: 'a,b' }));
  expect(body.querySelector('a.primary')?.getAttribute('href')).toBe('#/compare?base=a&new=b');
});

test('a run shows its audit next to the score', async () => {
  const body = await open(href(['run', 'a']));
  expect(body.querySelector('td .chip.bad')?.textContent).toBe('28 failed');
  const row = body.querySelector('table.scores tbody tr');
  expect(row?.textContent).toContain('exact_match');
  expect(row?.textContent).toContain('12 not matched by a filter (0.2 %)');
  expect(row?.querySelector('a.chip')?.getAttribute('href')).toContain('flag=empty');
  expect(row?.querySelector('svg')?.getAttribute('aria-label')).toBe('0.5000, 95 % interval 0.4800 to 0.5200');
});

test('a score with unfinished answers shows what is possible', async () => {
  const body = await open(href(['run', 'b']));
  const row = body.querySelector('table.scores tbody tr');
  expect(row?.textContent).toContain('0.7500†');
  expect(row?.textContent).toContain('† 0.7500 to 0.9000 possible');
  expect(row?.querySelector('svg .bounds')).not.toBeNull();
  // Where the table is wider than the screen.
  expect(body.querySelector('.unfinished')?.textContent).toMatch(/^† .+, \w+: 0\.7500 to 0\.9000 possible/);
});

test('unfinished answers are marked in the list and in the matrix', async () => {
  for (const query of [{}, { view: 'matrix' }, { group: 'task' }]) {
    const body = await open(href(['runs'], query));
    const marks = [...body.querySelectorAll('.bad[title*="possible"]')];
    expect(marks.map((mark) => mark.textContent)).toEqual(['†']);
    if (app) void unmount(app);
    document.body.replaceChildren();
  }
});

test('a difference that unfinished answers could explain has a mark and no verdict', async () => {
  const body = await open(href(['compare'], { base: 'b', new: 'a' }));
  expect(body.querySelector('.bad[title*="Not a finding"]')?.textContent).toBe('‡');
  expect(body.querySelector('td.good, td.bad')).toBeNull();
});

test('the grid renders a window of the rows, and the address selects them', async () => {
  const body = await open(href(['samples', 'a', 'questions'], { outcome: 'wrong', at: 1 }));
  const rows = body.querySelectorAll('[role=row]');
  expect(rows.length).toBeGreaterThan(5);
  expect(rows.length).toBeLessThan(60);
  expect(body.textContent).toContain(
    `${(SIZE / 2).toLocaleString('en-US')} of ${SIZE.toLocaleString('en-US')} samples`,
  );
  expect(requests.some((address) => address.startsWith('api/samples?') && address.includes('outcome=wrong'))).toBe(
    true,
  );
  press('j');
  expect(location.hash).toContain('at=2');
  press('Enter');
  await settle();
  expect(location.hash).toContain('#/sample/a/questions/5?outcome=wrong');
});

test('a document shows hostile answers as text', async () => {
  const body = await open(href(['sample', 'a', 'questions', '0']));
  expect(body.textContent).toContain(HOSTILE[0]);
  expect(body.querySelectorAll('script, img')).toHaveLength(0);
  press('j');
  await settle();
  expect(location.hash).toBe('#/sample/a/questions/1');
  expect([...body.querySelectorAll('.control')].map((label) => label.textContent)).toContain('ESC[31m');
});

test('few-shot boundaries, whitespace on demand, and the raw record', async () => {
  const body = await open(href(['sample', 'a', 'questions', '9']));
  expect([...body.querySelectorAll('.label')].map((label) => label.textContent)).toEqual([
    'Description',
    'Example 1',
    'Question',
  ]);
  expect(body.querySelector('.space')).toBeNull();
  press('w');
  await settle();
  expect(body.querySelector('.space')).not.toBeNull();
  press('r');
  await settle();
  expect(body.querySelector('details.card')?.textContent).toContain('{"doc_id":9}');
});

test('a comparison has a table, a plot, and changed documents with a diff', async () => {
  const body = await open(href(['compare'], { base: 'a', new: 'b', doc: '1-1' }));
  expect(body.textContent).toContain('large-model against small-model');
  expect(body.textContent).toContain('+0.2500');
  expect(body.querySelector('.plot svg')?.getAttribute('aria-label')).toBe(
    'questions exact_match (strict): small-model 0.5000, large-model 0.7500',
  );
  expect(body.querySelector('del')?.textContent).toBe('2');
  expect(body.querySelector('ins')?.textContent).toBe('1');
});

test('an error shows its message and advice', async () => {
  const body = await open(href(['run', 'missing']));
  const alert = body.querySelector('[role=alert]');
  expect(alert?.textContent).toContain('No such run');
  expect(alert?.textContent).toContain('Reload the list');
});

test('the page of a run draws its budget curve as an image', async () => {
  const body = await open(href(['run', 'b']));
  const image = body.querySelector('img');
  expect(image?.getAttribute('src')).toContain('data:image/svg+xml');
  expect(image?.getAttribute('alt')).toContain('by token budget');
  expect(body.textContent).toContain('Estimated.');
  expect((await open(href(['run', 'a']))).querySelector('img')).toBe(null);
});

test('reasoning is folded, and shown as text', async () => {
  const body = await open(href(['sample', 'a', 'questions', '9']));
  const reasoning = body.querySelector('details.reasoning');
  expect(reasoning?.hasAttribute('open')).toBe(false);
  expect(reasoning?.textContent).toContain('<b>plus nothing</b>');
  expect((await open(href(['sample', 'a', 'questions', '8']))).querySelector('details.reasoning')).toBe(null);
});

test('a curve shows its scores, what differs from the best step, tasks at chance, and checkpoints that wait', async () => {
  const body = await open(href(['curve']));
  expect(requests).toContain('api/curve?curve=c');
  expect(body.querySelectorAll('figure').length).toBe(2);
  const [first] = body.querySelectorAll('figure');
  expect(first?.querySelector('.good-mark')?.getAttribute('d')?.match(/z/g)?.length).toBe(1);
  expect(first?.querySelector('.bad-mark')?.getAttribute('d')?.match(/z/g)?.length).toBe(1);
  expect(first?.querySelector('.tied')?.getAttribute('d')?.match(/M/g)?.length).toBe(2);
  expect(first?.textContent).toContain('step 4,000: 0.4000 [0.3700, 0.4300] · vs previous −0.1200 (p < 0.0001)');
  expect(body.textContent).toContain('at chance riddles');
  expect(body.textContent).toContain('`model.safetensors` has 10 of 20 bytes');
  body.querySelector<HTMLAnchorElement>('figcaption a')?.click();
  window.dispatchEvent(new HashChangeEvent('hashchange'));
  await settle();
  const rows = [...body.querySelectorAll('table[aria-labelledby="steps-title"] tbody tr')];
  expect(rows.map((row) => row.querySelector('td')?.textContent)).toEqual(['4,000', '2,000', '1,000', '0']);
  expect(rows[0]?.querySelector('a')?.getAttribute('href')).toBe('#/run/b');
  expect(rows[1]?.textContent).toContain('the best');
});
