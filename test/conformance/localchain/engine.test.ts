import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { suite, test } from 'node:test';
import { createVm, INSTRUCTION_ERRORS, TRANSACTION_ERRORS } from '../../../src/local-chain/vm/vm.ts';

import { chainMissing } from '../../helpers/chain.ts';

/** Names of a numbered list in the engine's own declarations, by their numbers. */
function declared(text: string, name: string): string[] {
  const body = text.split(`enum ${name} {`)[1]?.split('}')[0] ?? '';
  const names: string[] = [];
  for (const [, item, number] of body.matchAll(/(\w+) = (\d+)/g)) names[Number(number)] = item!;
  return names;
}

suite('the guard and the engine agree', { skip: (await chainMissing()) ?? false }, () => {
  test('error names are those of the installed release', () => {
    const path = createRequire(import.meta.url)
      .resolve('litesvm/dist/internal.js')
      .replace(/\.js$/, '.d.ts');
    const text = readFileSync(path, 'utf8');
    assert.deepEqual(TRANSACTION_ERRORS, declared(text, 'TransactionErrorFieldless'));
    assert.deepEqual(INSTRUCTION_ERRORS, declared(text, 'InstructionErrorFieldless'));
  });

  test('no key of another length reaches it', async () => {
    const vm = await createVm();
    for (const length of [0, 31, 33]) {
      const key = new Uint8Array(length);
      const account = { lamports: 1n, data: new Uint8Array(0), executable: false, rentEpoch: 0n };
      for (const run of [
        () => vm.balance(key),
        () => vm.account(key),
        () => vm.programAccounts(key),
        () => vm.deploy(key, new Uint8Array(0)),
        () => vm.write(key, null),
        () => vm.write(new Uint8Array(32), { ...account, ownerBytes: key }),
      ]) {
        assert.throws(run, { code: 'LOCAL_BAD_KEY' });
      }
    }
  });
});
