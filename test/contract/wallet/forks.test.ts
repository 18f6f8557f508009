/** After any sequence of applied, merged and reverted blocks, the history of every address matches the chain. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { createRowReader, mergeTail, unpackTail } from '../../../plugins/wallet/store/rows.ts';
import {
  ACCOUNT,
  CHANGED,
  type HistoryRow,
  type KeyNumbers,
  migrations,
  NAMED,
  positionOf,
  readKeyNumbers,
  TOUCHED,
  type WalletDb,
} from '../../../plugins/wallet/store/tables.ts';
import { findSignature, readSignatures } from '../../../plugins/wallet/store/transactions.ts';
import { readOwnedAccounts, registerWallet } from '../../../plugins/wallet/store/wallets.ts';
import { createWalletProcessor } from '../../../plugins/wallet/tracking/processor.ts';
import { createSystemRandom } from '../../../src/adapters/clock.ts';
import { encode32 } from '../../../src/lib/base58.ts';
import type { ChainBlock } from '../../../src/ports/block.ts';
import type { Store } from '../../../src/ports/store.ts';
import { decodeBlock } from '../../../src/solana/decode/decode-block.ts';
import { migrate } from '../../../src/store/migrate.ts';
import { blockOf, entryOf, sampleMessage } from '../../helpers/rpc-block.ts';
import { createSfc32, type Sfc32 } from '../../helpers/sfc32.ts';
import { eachStore } from '../../helpers/store.ts';

const WALLETS = 4;
const STRANGERS = 3;
/** Token accounts of each wallet. */
const ACCOUNTS = 2;
const TOKEN_PROGRAM = 'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA';
const MINT = keyOf(9, 0);
const EVERYTHING = { above: -1, below: Number.MAX_SAFE_INTEGER, mask: 15, limit: 10_000, order: 'asc' } as const;

function keyOf(kind: number, number: number): Uint8Array {
  return new Uint8Array(32).fill(kind, 0, 16).fill(number + 1, 16);
}
const people = Array.from({ length: WALLETS + STRANGERS }, (_, at) => keyOf(1, at));
const wallets = people.slice(0, WALLETS);
const accountsOf = (owner: number) => Array.from({ length: ACCOUNTS }, (_, at) => keyOf(2, owner * ACCOUNTS + at));

/** What a block says of every address, by base58 and position. */
type Facts = ReadonlyMap<string, ReadonlyMap<number, number>>;

interface MadeBlock {
  readonly block: ChainBlock;
  readonly facts: Facts;
  readonly signatures: readonly (readonly [n: number, signature: Uint8Array])[];
}

/** Payments and token movements of random people, some of whom are wallets. */
function makeBlock(slot: number, parentSlot: number, isFull: boolean, random: Sfc32): MadeBlock {
  const facts = new Map<string, Map<number, number>>();
  const signatures: (readonly [number, Uint8Array])[] = [];
  const entries = Array.from({ length: random.below(5) }, (_, place) => {
    const n = positionOf(slot, place);
    const mark = (key: Uint8Array, flag: number) => {
      const rows = facts.get(encode32(key)) ?? new Map<number, number>();
      facts.set(encode32(key), rows.set(n, (rows.get(n) ?? 0) | flag));
    };
    const payer = random.below(people.length);
    const owner = random.below(people.length);
    const account = accountsOf(owner)[random.below(ACCOUNTS)] as Uint8Array;
    const [before, after] = [random.below(3), random.below(3)];
    // The owner of a token account is not among the keys unless it pays.
    const keys = [people[payer] as Uint8Array, account, keyOf(8, 0)];
    mark(people[payer] as Uint8Array, NAMED);
    mark(people[owner] as Uint8Array, TOUCHED | (before === after ? 0 : CHANGED));
    mark(account, ACCOUNT | (isFull ? NAMED : 0));
    const signature = random.fill(new Uint8Array(64));
    signatures.push([n, signature]);
    const balance = (amount: number) => ({
      accountIndex: 1,
      mint: encode32(MINT),
      owner: encode32(people[owner] as Uint8Array),
      programId: TOKEN_PROGRAM,
      uiTokenAmount: { amount: String(amount), decimals: 0, uiAmount: amount, uiAmountString: String(amount) },
    });
    return entryOf({
      message: sampleMessage({
        keys,
        instructions: [{ program: 2, accounts: Uint8Array.of(0, 1), data: Uint8Array.of(1) }],
      }),
      signatures: [signature],
      meta: { preTokenBalances: [balance(before)], postTokenBalances: [balance(after)] },
    });
  });
  const block = decodeBlock(slot, { ...blockOf(entries, slot), parentSlot, blockTime: 1_700_000_000 + slot } as never);
  return { block, facts, signatures };
}

/** All that is stored, whether it is merged or not; but for the accounts of wallets, of which no block is asked to take back any. */
async function dump(store: Store): Promise<string> {
  const db = store.read as WalletDb;
  const merged = await db.selectFrom('wallet_rows').selectAll().execute();
  const tail = await db.selectFrom('wallet_tail').selectAll().execute();
  const rows = [...merged, ...tail.flatMap(unpackTail)];
  const others = await Promise.all([
    db.selectFrom('wallet_transactions').selectAll().orderBy('n').execute(),
    db.selectFrom('wallet_bodies').selectAll().orderBy('n').execute(),
    db.selectFrom('wallet_times').selectAll().orderBy('slot').execute(),
    db.selectFrom('wallet_wallets').selectAll().orderBy('id').execute(),
    db.selectFrom('wallet_state').selectAll().execute(),
  ]);
  const sorted = rows.map(({ a, n, flags }) => [a, n, flags] as const).sort((l, r) => l[0] - r[0] || l[1] - r[1]);
  return JSON.stringify([sorted, others]);
}

/** A chain that grows, forks above its final block, and is merged on the way. */
function createWorld(store: Store, isFull: boolean, numbers: KeyNumbers, random: Sfc32) {
  const readRows = createRowReader(store);
  const processor = createWalletProcessor({
    random: createSystemRandom(),
    isFull,
    matched: () => undefined,
    merged: () => undefined,
  });
  /** The blocks that stand, and the state of the store below each of them. */
  const chain: (MadeBlock & { readonly below: string })[] = [];
  let finalSlot = 99;
  let slot = 100;
  /** Signatures that a fork took away. */
  const gone: Uint8Array[] = [];

  async function grow(): Promise<void> {
    const made = makeBlock(slot, chain.at(-1)?.block.slot ?? finalSlot, isFull, random);
    slot += 1 + random.below(3);
    const below = await dump(store);
    await store.write((tx) => processor.apply(tx, made.block, 'main'));
    chain.push({ ...made, below });
  }

  return {
    grow,
    /** From their first block on wallets are told that they come with the blocks: that stays true without it. */
    async begin() {
      await grow();
      finalSlot = chain[0]?.block.slot ?? finalSlot;
    },
    /** Down to a random block above the final one; the new branch may begin below where the old one did. */
    async fork() {
      const most = chain.filter(({ block }) => block.slot > finalSlot).length;
      for (let count = random.below(most + 1); count > 0; count -= 1) {
        const { block, below, signatures } = chain.pop() as (typeof chain)[number];
        await store.write(async (tx) => processor.revert?.(tx, block, 'main'));
        assert.equal(await dump(store), below);
        gone.push(...signatures.map(([, signature]) => signature));
      }
      slot = (chain.at(-1)?.block.slot ?? finalSlot) + 1 + random.below(3);
    },
    async finalize() {
      const open = chain.filter(({ block }) => block.slot > finalSlot);
      finalSlot = open[random.below(open.length)]?.block.slot ?? finalSlot;
      await store.write(async (tx) => {
        await mergeTail(tx, finalSlot, 1 + random.below(3));
        await processor.finalized?.(tx, finalSlot, 'main');
      });
    },
    async check() {
      const db = store.read as WalletDb;
      const known = isFull ? people : wallets;
      const expected = new Map<string, readonly HistoryRow[]>();
      for (const key of [...known, ...known.flatMap((_, owner) => accountsOf(owner))]) {
        const rows = chain.flatMap(({ facts }) =>
          [...(facts.get(encode32(key)) ?? [])].map(([n, flags]) => ({ n, flags })),
        );
        expected.set(encode32(key), rows);
        assert.deepEqual(await readRows(numbers.of(key), EVERYTHING), rows);
        const newest = await readRows(numbers.of(key), { ...EVERYTHING, limit: 3, order: 'desc' });
        assert.deepEqual(newest, rows.toReversed().slice(0, 3));
      }
      const ns = new Set([...expected.values()].flatMap((rows) => rows.map(({ n }) => n)));
      const stored = await readSignatures(db, [...ns]);
      for (const [n, signature] of chain.flatMap(({ signatures }) => signatures))
        if (ns.has(n)) assert.deepEqual(Buffer.from(stored.get(n) ?? []), Buffer.from(signature));
      for (const signature of gone) assert.equal(await findSignature(db, signature), null);
      // Accounts that only a lost branch named stay known: they are the wallet's, and there is no row of them.
      for (const [at, wallet] of wallets.entries())
        for (const { account } of await readOwnedAccounts(db, numbers.of(wallet)))
          assert.ok(accountsOf(at).some((own) => Buffer.compare(own, account) === 0));
    },
  };
}

type World = ReturnType<typeof createWorld>;
const steps = fc.array(
  fc.constantFrom<keyof Pick<World, 'grow' | 'fork' | 'finalize'>>('grow', 'grow', 'grow', 'grow', 'fork', 'finalize'),
  { minLength: 5, maxLength: 40 },
);

eachStore('history of wallets through forks', (engine) => {
  for (const isFull of [false, true])
    test(`${isFull ? 'a whole-chain index' : 'followed wallets'}: taking a block back is as if it had not been`, async (t) => {
      const property = fc.asyncProperty(steps, fc.nat(), async (plan, seed) => {
        const store = await engine.store(t);
        await migrate(store, [{ scope: 'wallet', migrations }]);
        for (const key of wallets)
          await store.write((tx) => registerWallet(tx, { key, address: encode32(key), now: 1 }));
        const numbers = await readKeyNumbers(store.read as WalletDb);
        const world = createWorld(store, isFull, numbers, createSfc32(seed));
        await world.begin();
        for (const step of plan) await world[step]();
        await world.check();
      });
      await fc.assert(property, { numRuns: engine.dialect === 'sqlite' ? 40 : 10 });
    });
});
