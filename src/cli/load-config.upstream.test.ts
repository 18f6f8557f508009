import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkUpstream } from './load-config.ts';

type Mode = 'auto' | 'on' | 'off';
const modes: readonly Mode[] = ['auto', 'on', 'off'];

/** Every combination, decided by the sentences of the documentation rather than by the code's order of questions. */
function expected(urls: boolean, mode: Mode, fromFile: boolean, productionEnv: boolean): 'upstream' | 'local' | RegExp {
  const production = fromFile || productionEnv;
  if (productionEnv && mode === 'on') return /not allowed with NODE_ENV=production/;
  if (urls) return mode === 'on' ? /choose one/ : 'upstream';
  if (!production) return mode === 'off' ? /no upstream is configured/ : 'local';
  if (mode === 'on' && fromFile && !productionEnv) return 'local';
  return /no upstream is configured/;
}

test('local chain or upstream: the whole table', () => {
  let cases = 0;
  for (const urls of [true, false])
    for (const mode of modes)
      for (const fromFile of [true, false])
        for (const productionEnv of [true, false]) {
          const run = () => checkUpstream({ urlCount: urls ? 2 : 0, mode, fromFile, productionEnv });
          const want = expected(urls, mode, fromFile, productionEnv);
          if (want instanceof RegExp) assert.throws(run, { code: 'CONFIG_INVALID', exitCode: 78, message: want });
          else assert.equal(run(), want);
          cases++;
        }
  assert.equal(cases, 24);
});
