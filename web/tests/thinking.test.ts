/** A model that thinks: its reasoning is folded, and a chart shows its scores by token budget. */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { writeFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { RunList } from '../src/lib/api';
import { done, folder, lab, start, type Lab } from './lab';

let world: Lab;
let server: Server;

const DOCUMENTS = 30;

/** Thinks about question N for N words. */
function answer(body: string): string {
  const request = JSON.parse(body) as { messages: { content: string }[]; max_tokens: number };
  const number = Number(/\d+/.exec(request.messages.at(-1)?.content ?? '')?.[0]);
  const words = Array.from({ length: number }, () => 'hm');
  const reasoning = words.slice(0, request.max_tokens).join(' ') + ' ';
  const content = words.length < request.max_tokens ? '=4' : null;
  const message = { role: 'assistant', content, reasoning_content: reasoning };
  const choice = { index: 0, message, finish_reason: content ? 'stop' : 'length' };
  const usage = { prompt_tokens: 1, completion_tokens: Math.min(number + 1, request.max_tokens) };
  return JSON.stringify({ choices: [choice], usage });
}

beforeAll(async () => {
  server = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk) => (body += String(chunk)));
    request.on('end', () => {
      response.setHeader('content-type', 'application/json');
      response.end(request.method === 'POST' ? answer(body) : '{"data": [{"id": "m"}]}');
    });
  });
  await new Promise<void>((ready) => server.listen(0, '127.0.0.1', ready));
  const home = folder();
  const rows = Array.from({ length: DOCUMENTS }, (_, row) => JSON.stringify({ q: `Question ${row + 1}` }));
  writeFileSync(join(home, 'rows.jsonl'), rows.join('\n'));
  writeFileSync(
    join(home, 'sums.yaml'),
    `task: sums
dataset_path: json
dataset_kwargs: {data_files: {test: rows.jsonl}}
test_split: test
output_type: generate_until
doc_to_text: '{{q}}'
doc_to_target: '=4'
generation_kwargs: {until: []}
metric_list: [{metric: exact_match}]
`,
  );
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/chat/completions`;
  const args = ['--model_args', `model=m,base_url=${url}`, '--apply_chat_template', '--tasks', 'sums.yaml'];
  const more = ['--budgets', '4,8,16,64', '--output_path', 'out', '--log_samples'];
  // Not `lmEval`, which would block the server.
  const run = start(home, 'run', '--model', 'local-chat-completions', ...args, ...more);
  const status = await new Promise((ended) => run.on('exit', ended));
  expect(status).toBe(0);
  world = await lab(home, 'out');
});
afterAll(async () => {
  await world?.close();
  server?.close();
});

async function runId(): Promise<string> {
  const { runs } = (await (await fetch(`${world.url}api/runs`)).json()) as RunList;
  return runs.find((run) => run.kind === 'results')?.id ?? '';
}

test('the page of a run draws its scores by token budget', async () => {
  const page = await world.open(`#/run/${await runId()}`);
  const image = page.getByRole('img', { name: 'Scores and finished answers by token budget' });
  await image.waitFor();
  // The browser has drawn it, under the policy of the page.
  expect(await image.evaluate((element: HTMLImageElement) => element.naturalWidth)).toBeGreaterThan(300);
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: 'Save as PNG' }).click(),
  ]);
  expect(download.suggestedFilename()).toMatch(/budget\.png$/);
  await done(page);
});

test('reasoning is folded above its answer', async () => {
  const page = await world.open(`#/sample/${await runId()}/sums/9`);
  const reasoning = page.locator('details.reasoning');
  await reasoning.waitFor();
  expect(await reasoning.locator('.text').isVisible()).toBe(false);
  await reasoning.locator('summary').click();
  expect(await reasoning.locator('.text').textContent()).toBe(Array.from({ length: 10 }, () => 'hm').join(' '));
  await done(page);
});
