import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { createVm } from '../../../packages/local-chain/vm/vm.ts';
import { chainMissing } from '../../helpers/chain.ts';

suite('the guard before the engine', { skip: (await chainMissing()) ?? false }, () => {
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
