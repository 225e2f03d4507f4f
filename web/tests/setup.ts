import { existsSync } from 'node:fs';
import { BINARY, findChromium } from './lab';

/** A missing browser or binary ends the tests in CI; elsewhere `scripts/test` says that they were left out. */
export default function setup() {
  if (!existsSync(BINARY))
    throw new Error(`${BINARY} does not exist; run \`cargo build -p lmeval-cli\` or set LM_EVAL_BINARY`);
  if (!findChromium())
    throw new Error('No Chromium found; install it (Debian: apt-get install chromium) or set CHROMIUM to its path');
}
