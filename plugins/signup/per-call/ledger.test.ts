/** Payments of calls as rows, on both engines: of many that ask at once, one gives and one answers. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encode32, encode64 } from '../../../src/lib/base58.ts';
import { migrate } from '../../../src/store/migrate.ts';
import { accessBed } from '../../../test/helpers/access-harness.ts';
import { eachStore } from '../../../test/helpers/store.ts';
import { listProjects } from '../../access/projects.ts';
import { createAccessAccounts } from '../../access/services.ts';
import { migrations, type PaymentRow, tables } from '../tables.ts';
import { createLedger } from './ledger.ts';

const wallet = encode32(new Uint8Array(32).fill(1));
const CREDITS = 7;
const rowOf = (id: number, other: Partial<PaymentRow> = {}): PaymentRow => ({
  signature: encode64(new Uint8Array(64).fill(id)),
  wallet,
  symbol: 'calls',
  amount: '7',
  slot: 10,
  is_final: 1,
  claimed_at: null,
  key_hash: null,
  project_id: null,
  memo: null,
  credits: CREDITS,
  used_at: null,
  ...other,
});

eachStore('payments of calls', (engine) => {
  test('a payment is given once and used once, however many ask at once', async (t) => {
    const store = await engine.store(t);
    const access = await accessBed(store);
    await migrate(store, [{ scope: 'signup', migrations }]);
    const accounts = createAccessAccounts(access.projects, access.keys, () => access.plans);
    const paid = [rowOf(1), rowOf(2), rowOf(3)];
    const [open, signUp] = [rowOf(4, { is_final: 0 }), rowOf(5, { credits: null })];
    await store.write((tx) =>
      tables(tx.db)
        .insertInto('signup_payments')
        .values([...paid, open, signUp])
        .execute(),
    );
    // As in two processes of the API.
    const ledgers = [1, 2].map(() => createLedger({ store, clock: access.clock, accounts, plan: 'agent' }));
    const asking = ledgers.flatMap((ledger) => [
      ...paid.flatMap((row) => [ledger.give(row), ledger.give(row)]),
      ledger.giveOpen(),
    ]);
    await Promise.all(asking);
    const [made, ...others] = (await listProjects(store)).filter(({ id }) => id !== access.project.id);
    assert.deepEqual(others, [], 'a wallet has one project');
    assert.equal(made?.prepaid_granted, paid.length * CREDITS);
    assert.equal(made?.overrides, '{"creditsLimit":0}', 'nothing of the plan is given');
    for (const ledger of ledgers) for (const row of paid) assert.equal(await ledger.give(row), made?.id);

    for (const row of paid) {
      const uses = await Promise.all(ledgers.flatMap((ledger) => [ledger.use(row), ledger.use(row)]));
      assert.equal(uses.filter(Boolean).length, 1);
    }
    for (const ledger of ledgers) {
      assert.equal(await ledger.give(open), null, 'its block may be taken back');
      assert.equal(await ledger.give(signUp), null, 'a sign-up is no call');
      assert.equal(await ledger.find(signUp), undefined);
    }
  });
});
