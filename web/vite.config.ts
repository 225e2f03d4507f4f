import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { svelte } from '@sveltejs/vite-plugin-svelte';
import type { Plugin } from 'vite';
import { defineConfig } from 'vitest/config';

/** A report puts the script into HTML, so it must not contain what ends or escapes a script element there. */
function safeInHtml(): Plugin {
  return {
    name: 'safe-in-html',
    enforce: 'post',
    apply: 'build',
    generateBundle(_, bundle) {
      for (const file of Object.values(bundle)) {
        if (file.type !== 'chunk') continue;
        file.code = file.code
          .replaceAll('</script', '<\\/script')
          .replaceAll('<!--', '\\x3c!--')
          .replaceAll('<script', '\\x3cscript');
      }
    },
  };
}

/** Licences of the packages inside the bundle, as a comment at its start. */
function notices(): Plugin {
  return {
    name: 'notices',
    enforce: 'post',
    apply: 'build',
    generateBundle(_, bundle) {
      for (const file of Object.values(bundle)) {
        if (file.type !== 'chunk') continue;
        const names = Object.keys(file.modules).flatMap(
          (id) => /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(id)?.[1] ?? [],
        );
        const texts = [...new Set(names)].sort().map((name) => {
          const folder = join(import.meta.dirname, 'node_modules', name);
          const { version } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as { version: string };
          const licence = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry));
          if (!licence) throw new Error(`${name} is in the bundle and has no licence file`);
          return `${name} ${version}\n\n${readFileSync(join(folder, licence), 'utf8').trim()}`;
        });
        file.code = `/*!\nThis file contains:\n\n${texts.join('\n\n')}\n*/\n${file.code}`;
      }
    },
  };
}

/** `npm run dev` answers from `tests/mock.ts`, or from the server that `LM_EVAL_VIEW` names. */
function mock(): Plugin {
  return {
    name: 'mock',
    apply: 'serve',
    configureServer(server) {
      if (process.env.LM_EVAL_VIEW) return;
      server.middlewares.use('/api', async (request, response) => {
        const { answer, liveState } = (await server.ssrLoadModule('/tests/mock.ts')) as typeof import('./tests/mock');
        if (request.url === '/live') {
          response.setHeader('content-type', 'text/event-stream');
          let seconds = 0;
          const timer = setInterval(() => response.write(`data: ${JSON.stringify(liveState(seconds++))}\n\n`), 1000);
          request.on('close', () => clearInterval(timer));
          return;
        }
        const found = answer(`/api${request.url}`);
        response.statusCode = found === undefined ? 404 : 200;
        response.setHeader('content-type', 'application/json');
        response.end(JSON.stringify(found ?? { error: 'not found' }));
      });
    },
  };
}

export default defineConfig({
  base: './',
  plugins: [svelte(), notices(), safeInHtml(), mock()],
  build: {
    // Inside the crate that embeds it, so that a packaged crate is complete.
    outDir: '../crates/lmeval-view/dist',
    emptyOutDir: true,
    target: 'es2022',
    cssCodeSplit: false,
    modulePreload: false,
    assetsInlineLimit: 100_000,
    reportCompressedSize: false,
    rolldownOptions: { output: { entryFileNames: 'app.js', assetFileNames: 'app.[ext]', codeSplitting: false } },
  },
  server: { proxy: process.env.LM_EVAL_VIEW ? { '/api': process.env.LM_EVAL_VIEW } : {} },
  test: {
    projects: [
      {
        extends: true,
        resolve: { conditions: ['browser'] },
        test: { name: 'unit', environment: 'happy-dom', include: ['src/**/*.test.ts'] },
      },
      {
        extends: true,
        test: {
          name: 'browser',
          environment: 'node',
          include: ['tests/**/*.test.ts'],
          globalSetup: 'tests/setup.ts',
          testTimeout: 30_000,
          hookTimeout: 120_000,
          maxWorkers: 2,
        },
      },
      {
        extends: true,
        test: {
          name: 'screenshots',
          environment: 'node',
          include: ['tests/screenshots.ts'],
          globalSetup: 'tests/setup.ts',
          testTimeout: 400_000,
        },
      },
    ],
  },
});
