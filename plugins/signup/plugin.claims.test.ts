/** Payments as rows, and what is given for them, on both engines. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import fc from 'fast-check';
import { encode32, encode64 } from '../../src/lib/base58.ts';
import type { Store } from '../../src/ports/store.ts';
import { decodeBlock } from '../../src/solana/decode/decode-block.ts';
import { migrate } from '../../src/store/migrate.ts';
import { accessBed } from '../../test/helpers/access-harness.ts';
import { blockOf, entryOf, sampleMessage } from '../../test/helpers/rpc-block.ts';
import { eachStore } from '../../test/helpers/store.ts';
import { listApiKeys } from '../access/keys.ts';
import { listProjects } from '../access/projects.ts';
import { createAccessAccounts } from '../access/services.ts';
import { createClaims, createPaymentProcessor, readTerms } from './plugin.ts';
import { migrations, tables } from './tables.ts';

const bytes = (seed: number) => new Uint8Array(32).fill(seed);
const TREASURY = bytes(200);
const PRICE = 1_000;
const terms = readTerms({ treasury: encode32(TREASURY), lamports: PRICE, tokens: [] });

interface Paid {
  readonly from: number;
  readonly lamports: number;
  readonly id: number;
  readonly failed?: boolean;
}

/** A block with a transfer to the treasury for each payment. */
function blockWith(slot: number, paid: readonly Paid[]) {
  const entries = paid.map(({ from, lamports, id, failed }) => {
    const data = Buffer.alloc(12);
    data.writeUInt32LE(2, 0);
    data.writeBigUInt64LE(BigInt(lamports), 4);
    return entryOf({
      message: sampleMessage({
        keys: [bytes(from), TREASURY, new Uint8Array(32)],
        instructions: [{ program: 2, accounts: Uint8Array.of(0, 1), data }],
      }),
      signatures: [new Uint8Array(64).fill(id)],
      ...(failed === true ? { meta: { err: 'AccountInUse' } } : {}),
    });
  });
  return decodeBlock(slot, blockOf(entries, slot));
}

const signature = (id: number) => encode64(new Uint8Array(64).fill(id));

async function bed(store: Store) {
  const access = await accessBed(store);
  await migrate(store, [{ scope: 'signup', migrations }]);
  const processor = createPaymentProcessor(terms);
  const accounts = createAccessAccounts(access.projects, access.keys, () => access.plans);
  const claim = createClaims({ store, clock: access.clock, accounts, config: { plan: 'agent', credits: 5 } });
  const apply = (slot: number, paid: readonly Paid[], isFinal = false) =>
    store.write((tx) => processor.apply(tx, blockWith(slot, paid), 'main', { isFinal }));
  const revert = (slot: number) => store.write((tx) => processor.revert(tx, blockWith(slot, []), 'main'));
  const finalize = (slot: number) => store.write(async (tx) => await processor.finalized?.(tx, slot, 'main'));
  const rows = () =>
    tables(store.read).selectFrom('signup_payments').selectAll().orderBy('signature').orderBy('wallet').execute();
  return { ...access, claim, apply, revert, finalize, rows };
}

eachStore('sign-ups', (engine) => {
  test('of many claims at once one is given, and the wallet has one project', async (t) => {
    const { store, apply, finalize, claim, project } = await bed(await engine.store(t));
    const wallet = encode32(bytes(1));
    const ids = [1, 2, 3];
    await apply(
      10,
      ids.map((id) => ({ from: 1, lamports: PRICE, id })),
    );
    await finalize(10);
    const claims = ids.flatMap((id) =>
      Array.from({ length: 6 }, () => ({ wallet, payment: signature(id), key: randomUUID() })),
    );
    const outcomes = await Promise.all(claims.map(claim));
    for (const id of ids) {
      const mine = outcomes.filter((_, at) => claims[at]?.payment === signature(id));
      assert.deepEqual(mine.map(({ kind }) => kind).sort(), ['given', ...new Array<string>(5).fill('spent')]);
    }
    const made = (await listProjects(store)).filter(({ id }) => id !== project.id);
    assert.equal(made.length, 1);
    assert.equal(made[0]?.prepaid_granted, 15);
    assert.equal((await listApiKeys(store, made[0]?.id)).length, 3);
    // Repeated, each claim has the same outcome.
    const again = await Promise.all(claims.map(claim));
    assert.deepEqual(again, outcomes);
  });

  test('a claimed payment whose block is read again gives nothing more', async (t) => {
    const { apply, revert, claim } = await bed(await engine.store(t));
    const paid = [{ from: 1, lamports: PRICE, id: 1 }];
    const mine = { wallet: encode32(bytes(1)), payment: signature(1), key: randomUUID() };
    await apply(10, paid, true);
    assert.equal((await claim(mine)).kind, 'given');
    await revert(10);
    await apply(10, paid, true);
    assert.equal((await claim({ ...mine, key: randomUUID() })).kind, 'spent');
    assert.equal((await claim(mine)).kind, 'given');
  });

  test('a block taken back leaves the rows as they were; what counts is the price, and success', async (t) => {
    const { apply, revert, rows, store } = await bed(await engine.store(t));
    const payment = fc.record({
      from: fc.integer({ min: 1, max: 5 }),
      lamports: fc.integer({ min: PRICE - 2, max: PRICE + 2 }),
      failed: fc.boolean(),
    });
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.array(payment, { maxLength: 4 }), { minLength: 1, maxLength: 4 }),
        async (blocks) => {
          await store.write((tx) => tables(tx.db).deleteFrom('signup_payments').execute());
          let id = 0;
          const states = [];
          const numbered = blocks.map((paid) =>
            paid.map((one) => {
              id += 1;
              return { ...one, id };
            }),
          );
          for (const [at, paid] of numbered.entries()) {
            states.push(await rows());
            await apply(at + 1, paid);
          }
          const good = numbered.flat().filter(({ lamports, failed }) => lamports >= PRICE && !failed);
          const found = await rows();
          assert.deepEqual(
            found.map(({ signature, wallet, amount }) => [signature, wallet, amount]).sort(),
            good.map((one) => [signature(one.id), encode32(bytes(one.from)), String(one.lamports)]).sort(),
          );
          for (const [at] of [...numbered.entries()].reverse()) {
            await revert(at + 1);
            assert.deepEqual(await rows(), states[at]);
          }
        },
      ),
      { numRuns: 25 },
    );
  });
});

test('terms that cannot be paid are configuration errors', () => {
  const base = { treasury: encode32(TREASURY), lamports: 1, tokens: [], plan: 'agent', credits: 0 };
  const token = { symbol: 'USDC', mint: encode32(bytes(9)), decimals: 6, amount: 1 };
  for (const change of [
    { treasury: null },
    { treasury: '1'.repeat(44) },
    { lamports: null },
    { tokens: [token, token] },
    { tokens: [{ ...token, symbol: 'sol' }] },
    { tokens: [{ ...token, mint: 'z'.repeat(44) }] },
  ])
    assert.throws(() => readTerms({ ...base, ...change }), { code: 'SIGNUP_CONFIG', exitCode: 78 });
});
