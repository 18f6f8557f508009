/** Long mode: npm run fuzz -- --requests 50000 [--seed 7]. Every documented operation and method, as test/fault/fuzz does it in a test run. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { findProjectRoot } from '../../helpers/project-root.ts';

const { values } = parseArgs({ options: { requests: { type: 'string', default: '50000' }, seed: { type: 'string' } } });
const startedMs = performance.now();
const child = spawn(
  process.execPath,
  [
    '--import=tsx',
    '--import=./test/helpers/test-process.mjs',
    '--conditions=parhelion-source',
    '--expose-gc',
    '--test',
    '--test-reporter=spec',
    fileURLToPath(new URL('api.long.test.ts', import.meta.url)),
  ],
  {
    cwd: findProjectRoot(),
    stdio: ['ignore', 'inherit', 'inherit'],
    env: {
      ...process.env,
      NODE_ENV: 'test',
      FUZZ_REQUESTS: values.requests,
      ...(values.seed === undefined ? {} : { FUZZ_SEED: values.seed }),
    },
  },
);
const [code] = (await once(child, 'exit')) as [number | null];
console.log(`${values.requests} requests and more in ${Math.round((performance.now() - startedMs) / 1_000)} s`);
process.exit(code ?? 1);
