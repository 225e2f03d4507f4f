/** A run that is followed while it runs: a stand-in model server answers when the test says so. */
import type { ChildProcess } from 'node:child_process';
import { rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { addressOf, done, folder, launch, start, visit } from './lab';

let browser: Browser;
let model: Server;
let run: ChildProcess | undefined;
const home = folder();
const waiting: (() => void)[] = [];
let free = 0;
let failures = 1;

/** Lets the server answer this many more requests. */
function release(number: number) {
  free += number;
  while (free > 0 && waiting.length > 0) {
    free--;
    waiting.shift()?.();
  }
}

beforeAll(async () => {
  browser = await launch();
  model = createServer((request, response) => {
    request.resume();
    request.on('end', () => {
      if (request.method === 'GET') {
        response.setHeader('content-type', 'application/json');
        response.end(JSON.stringify({ object: 'list', data: [{ id: 'stand-in', object: 'model' }] }));
        return;
      }
      const reply = () => {
        if (failures > 0) {
          failures--;
          response.writeHead(503).end('busy');
          return;
        }
        const choice = { index: 0, text: ' The answer is <b>42</b>.', finish_reason: 'stop' };
        response.setHeader('content-type', 'application/json');
        response.end(JSON.stringify({ id: 'x', object: 'text_completion', model: 'stand-in', choices: [choice] }));
      };
      if (free > 0) {
        free--;
        reply();
      } else waiting.push(reply);
    });
  });
  await new Promise<void>((ready) => model.listen(0, '127.0.0.1', ready));
});

afterAll(async () => {
  run?.kill('SIGKILL');
  await browser?.close();
  model?.close();
  model?.closeAllConnections();
  rmSync(home, { recursive: true, force: true });
});

test('progress, retries, newest answers and running scores arrive by themselves', async () => {
  const { port } = model.address() as AddressInfo;
  const args = `base_url=http://127.0.0.1:${port}/v1/completions,model=stand-in,tokenizer_backend=none,num_concurrent=2`;
  run = start(
    home,
    'run',
    '--view',
    '--model',
    'local-completions',
    '--model_args',
    args,
    '--tasks',
    'demo_arithmetic',
    '--output_path',
    'out',
    '--log_samples',
  );
  const url = await addressOf(run);
  const page = await visit(browser, url);
  await page.getByRole('heading', { name: 'Running scores' }).waitFor();
  expect(page.url()).toContain('#/live');
  release(6);
  await page
    .locator('dl div', { hasText: 'Requests' })
    .getByText(/^5 of \d+$/)
    .waitFor();
  await page.locator('dl div', { hasText: 'Retries' }).getByText('1', { exact: true }).waitFor();
  await page.getByText('The answer is <b>42</b>.').first().waitFor();
  release(20);
  await page
    .locator('dl div', { hasText: 'Requests' })
    .getByText(/^25 of \d+$/)
    .waitFor();
  release(1_000_000);
  await page.getByRole('status').getByText('finished').waitFor();
  await page.getByText('The server ends with the run.').waitFor();
  await page.getByRole('table', { name: 'Running scores' }).getByText('exact_match').first().waitFor();
  await done(page);
});
