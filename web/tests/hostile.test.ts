/** Model output that tries to be more than text. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { column, done, folder, generation, lab, writeRun, type Lab } from './lab';

let world: Lab;
const SCRIPT =
  '<script>document.title="owned"</script><img src=x onerror="document.title=\'owned\'"><style>*{display:none}</style>';
const LONG = 10_000_000;

beforeAll(async () => {
  const home = folder();
  const samples = [
    generation(0, SCRIPT, SCRIPT, 0, { question: SCRIPT }),
    generation(1, 'terminal', '\x1b[2J\x1b[31mred\x1b]0;title\x07\b\b', 0),
    generation(2, 'bidi', 'access \u202e\u2066// only for admins\u2069\u2066 \u200b\ufeff', 1),
    generation(3, 'long', 'x'.repeat(LONG), 1),
    generation(
      4,
      JSON.stringify([
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content: SCRIPT },
      ]),
      'ok',
      1,
    ),
    generation(5, 'javascript:alert(1)', '{@html "x"} {{ 7 * 7 }} ${7*7}', 0),
  ];
  writeRun(home, { folder: 'hostile', model: SCRIPT, task: 'hostile', samples });
  world = await lab(home, 'hostile');
});
afterAll(() => world?.close());

async function samplesPage(query = '') {
  const page = await world.open();
  await page.getByRole('heading', { name: SCRIPT }).waitFor();
  const id = page.url().split('/').at(-1);
  await page.goto(`${page.url().split('#')[0]}#/samples/${id}/hostile${query}`);
  await page.getByText('6 samples').waitFor();
  return page;
}

test('markup in names, prompts and answers stays text', async () => {
  const page = await samplesPage();
  await expect.poll(async () => (await column(page, 'Answer'))[0]).toBe(SCRIPT);
  await page.getByRole('link', { name: '0', exact: true }).click();
  await page.getByRole('heading', { name: 'Document 0' }).waitFor();
  expect(await page.locator('main script, main img, main style').count()).toBe(0);
  expect(await page.title()).not.toBe('owned');
  expect(await page.getByText(SCRIPT, { exact: true }).count()).toBeGreaterThan(2);
  await done(page);
});

test('terminal escapes and bidirectional overrides are labels', async () => {
  const page = await samplesPage();
  await page.locator('.body').first().waitFor();
  const cells = await column(page, 'Answer');
  expect(cells[1]).toContain('‹ESC[31m›red');
  expect(cells[2]).toContain('‹U+202E›‹U+2066›// only for admins');
  await page.getByRole('link', { name: '2', exact: true }).click();
  await page.locator('.control', { hasText: 'U+202E' }).first().waitFor();
  const text = await page.locator('main').innerText();
  // eslint-disable-next-line no-control-regex
  expect(text).not.toMatch(/[\u0000-\u0008\u001b\u202a-\u202e\u2066-\u2069\u200b]/);
  await done(page);
});

test('a chat is shown as turns', async () => {
  const page = await samplesPage();
  await page.getByRole('link', { name: '4', exact: true }).click();
  await page.getByRole('heading', { name: 'Document 4' }).waitFor();
  expect(await page.locator('.turn .label').allTextContents()).toEqual(['system', 'user']);
  await done(page);
});

test('a line of 10 MB opens, in portions, and whole on demand', async () => {
  const page = await samplesPage('?sort=-answer_length');
  await expect.poll(async () => (await column(page, 'Id'))[0]).toBe('3');
  await page.getByRole('link', { name: '3', exact: true }).click();
  await page.getByText('20,000 of 10,000,000 characters').first().waitFor();
  await page.getByRole('button', { name: 'Show more' }).first().click();
  await page.getByRole('button', { name: 'Load the whole string' }).first().click();
  await page.getByText('220,000 of 10,000,000 characters').first().waitFor();
  expect(page.url()).toContain('full=1');
  await done(page);
});
