/** What the browser tests stand on: the command, runs made with it, a server over them, and a browser. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { type Browser, chromium, type Page } from 'playwright-core';
import { expect } from 'vitest';

export const BINARY = resolve(process.env.LM_EVAL_BINARY ?? '../target/debug/lm-eval');

export function findChromium(): string | undefined {
  const names = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];
  return [process.env.CHROMIUM, ...names].find((path) => path && existsSync(path));
}

export function launch(): Promise<Browser> {
  const flags = [
    '--no-sandbox',
    '--disable-gpu',
    '--disable-quic',
    '--no-first-run',
    '--disable-background-networking',
    '--disable-component-update',
    '--disable-sync',
  ];
  return chromium.launch({ executablePath: findChromium(), headless: true, args: flags });
}

/** A folder that the tests of a file share; removed by `close`. */
export function folder(): string {
  return mkdtempSync(join(tmpdir(), 'lm-eval-view-'));
}

const environment = (home: string) => ({
  PATH: process.env.PATH,
  HOME: home,
  TZ: 'UTC',
  NO_COLOR: '1',
  HF_HUB_OFFLINE: '1',
});

export function lmEval(home: string, ...args: string[]): string {
  return execFileSync(BINARY, args, {
    cwd: home,
    env: environment(home),
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  });
}

export function start(home: string, ...args: string[]): ChildProcess {
  return spawn(BINARY, args, { cwd: home, env: environment(home), stdio: ['ignore', 'pipe', 'pipe'] });
}

/** The first address that a command prints. */
export function addressOf(child: ChildProcess): Promise<string> {
  return new Promise((found, failed) => {
    let output = '';
    const read = (chunk: Buffer) => {
      output += String(chunk);
      const match = /http:\/\/\S+/.exec(output);
      if (match) found(match[0]);
    };
    child.stdout?.on('data', read);
    child.stderr?.on('data', read);
    child.on('exit', (status) => failed(new Error(`The command ended with ${status}:\n${output}`)));
  });
}

export interface Lab {
  home: string;
  url: string;
  browser: Browser;
  /** A page that fails the test on errors of the console, of scripts, and on requests to other origins. */
  open(address?: string, options?: Parameters<Browser['newPage']>[0]): Promise<Page>;
  close(): Promise<void>;
}

/** A server over the folders of `home`, and a browser. */
export async function lab(home: string, ...paths: string[]): Promise<Lab> {
  const server = start(home, 'view', '--no-open', '--port', '0', ...paths);
  const [url, browser] = await Promise.all([addressOf(server), launch()]);
  return {
    home,
    url,
    browser,
    async open(address = '', options) {
      return visit(browser, `${url.replace(/\/$/, '')}/${address}`, options);
    },
    async close() {
      await browser.close();
      server.kill();
      rmSync(home, { recursive: true, force: true });
    },
  };
}

const problems = new WeakMap<Page, string[]>();

export async function visit(
  browser: Browser,
  address: string,
  options?: Parameters<Browser['newPage']>[0],
): Promise<Page> {
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 }, reducedMotion: 'reduce', ...options });
  page.setDefaultTimeout(10_000);
  const found: string[] = [];
  problems.set(page, found);
  const origin = new URL(address).origin;
  page.on('console', (message) => {
    if (message.type() !== 'error') return;
    // The page reports answers other than 2xx itself; the tests look at what it shows.
    if (!message.text().startsWith('Failed to load resource')) found.push(message.text());
  });
  page.on('pageerror', (error) => found.push(error.message));
  page.on('request', (request) => {
    if (!request.url().startsWith(origin) && !/^(data|blob|file):/.test(request.url()))
      found.push(`request to ${request.url()}`);
  });
  await page.goto(address);
  return page;
}

/** Ends a test with a page: nothing may have gone wrong in it. */
export async function done(page: Page) {
  expect(problems.get(page)).toEqual([]);
  await page.close();
}

/** Results and samples files as the harness writes them. */
export function writeRun(
  home: string,
  options: { folder: string; model: string; task: string; samples: object[]; score?: number },
) {
  const { model, task, samples, score = 0.5 } = options;
  const path = join(home, options.folder);
  mkdirSync(path, { recursive: true });
  const time = '2026-01-02T03-04-05.000006';
  const results = {
    results: {
      [task]: { name: task, alias: task, sample_len: samples.length, 'acc,none': score, 'acc_stderr,none': 0.1 },
    },
    group_subtasks: {},
    configs: { [task]: { task, output_type: 'generate_until', metric_list: [{ metric: 'acc' }] } },
    versions: { [task]: 1 },
    'n-shot': { [task]: 0 },
    higher_is_better: { [task]: { acc: true } },
    'n-samples': { [task]: { original: samples.length, effective: samples.length } },
    config: { model: 'hf', model_args: { pretrained: model, api_key: '***' }, batch_size: 1, limit: null },
    date: 1767323045,
    lm_eval_version: '0.5.0',
    model_source: 'hf',
    model_name: model,
    model_name_sanitized: 'm',
    total_evaluation_time_seconds: '12.5',
  };
  writeFileSync(join(path, `results_${time}.json`), JSON.stringify(results));
  writeFileSync(
    join(path, `samples_${task}_${time}.jsonl`),
    samples.map((sample) => `${JSON.stringify(sample)}\n`).join(''),
  );
}

export function generation(
  doc_id: number,
  prompt: string,
  answer: string,
  acc: number,
  doc: object = { question: prompt },
) {
  return {
    doc_id,
    doc,
    target: String(doc_id),
    arguments: { gen_args_0: { arg_0: prompt, arg_1: { until: ['\n\n'] } } },
    resps: [[answer]],
    filtered_resps: [answer],
    filter: 'none',
    metrics: ['acc'],
    doc_hash: `d${doc_id}`.padEnd(64, '0'),
    prompt_hash: `p${doc_id}`.padEnd(64, '0'),
    target_hash: `t${doc_id}`.padEnd(64, '0'),
    acc,
  };
}

/** Text of the cells of a column, in the rows on screen. */
export async function column(page: Page, name: string): Promise<string[]> {
  return page.evaluate((name) => {
    const headers = [...document.querySelectorAll('[role=columnheader]')].map((cell) =>
      cell.textContent?.replace(/[▲▼]/g, '').trim(),
    );
    const index = headers.indexOf(name);
    return [...document.querySelectorAll('.body[role=row]')].map(
      (row) => row.querySelectorAll('[role=cell]')[index]?.textContent?.trim() ?? '',
    );
  }, name);
}
