// Writes the distributions that llama.cpp finds over the last tokens of sequences, for bench/fidelity.py.
//
//   npm install --ignore-scripts node-llama-cpp     its packages contain llama.cpp, built
//   node bench/llama_cpp.mjs MODEL.gguf SEQUENCES.json OUT
//
// SEQUENCES has a list of [tokens, scored] pairs. OUT gets the probabilities of the whole vocabulary for each scored token, in single precision.
import { createRequire } from 'node:module';
import { closeSync, openSync, readFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const require = createRequire(join(process.cwd(), 'package.json'));
const { getLlama } = await import(pathToFileURL(require.resolve('node-llama-cpp')).href);
const [modelPath, sequences, target] = process.argv.slice(2);
const llama = await getLlama({ gpu: false, build: 'never', progressLogs: false, logLevel: 'error' });
const model = await llama.loadModel({ modelPath });
const context = await model.createContext({ contextSize: 1024, sequences: 1 });
const out = openSync(target, 'w');
for (const [tokens, scored] of JSON.parse(readFileSync(sequences, 'utf8'))) {
  const sequence = context.getSequence();
  const asked = tokens.slice(0, -1).map((token, index) => {
    return index >= tokens.length - 1 - scored ? [token, { generateNext: { probabilities: true } }] : token;
  });
  for (const found of await sequence.controlledEvaluate(asked)) {
    if (found === undefined) continue;
    const row = new Float32Array(found.next.probabilities.size);
    for (const [token, probability] of found.next.probabilities) row[token] = probability;
    writeSync(out, new Uint8Array(row.buffer));
  }
  sequence.dispose();
}
closeSync(out);
process.exit(0);
