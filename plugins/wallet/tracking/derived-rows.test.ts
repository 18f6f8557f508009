/** Cached rows match the transactions, and are removed with them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decode32, encode32, encode64 } from '../../../src/lib/base58.ts';
import type { MintFacts } from '../../../src/ports/tokens.ts';
import { decodeTransaction } from '../../../src/solana/decode/decode-block.ts';
import { paymentResult } from '../../../test/helpers/wallet-node.ts';
import { historyElement, historyRow } from '../history.ts';
import { positionOf } from '../store/tables.ts';
import { transfersDigest, transferText } from '../transfers.ts';
import { createDerivedRows } from './derived-rows.ts';
import type { LoadedRow, ViewRow, WalletView } from './view.ts';

const WALLET = encode32(new Uint8Array(32).fill(1));
const OTHER = encode32(new Uint8Array(32).fill(2));
const FINAL_SLOT = 100;

/** A payment to the wallet, as read from the store. */
function payment(slot: number, lamports: number): LoadedRow {
  const signature = encode64(new Uint8Array(64).fill(slot % 256).fill(lamports % 256, 32));
  const entry = { signature, slot, err: null, blockTime: 1_700_000_000 + slot };
  const block = decodeTransaction(paymentResult({ entry, from: OTHER, to: WALLET, lamports }));
  const tx = block.transactions[0]!;
  return { n: positionOf(slot, 0), flags: 1, signature, slot, time: block.blockTime, tx, block };
}

/** A wallet over replaceable transactions. `loads` counts reads of them. */
function world(list: readonly LoadedRow[]) {
  const stored = new Map(list.map((one) => [one.n, one]));
  const loads: number[] = [];
  const view = {
    key: decode32(WALLET)!,
    address: WALLET,
    id: 7,
    finalSlot: FINAL_SLOT,
    async load(rows: readonly ViewRow[]) {
      loads.push(...rows.map(({ n }) => n));
      return rows.flatMap(({ n }) => stored.get(n) ?? []);
    },
  } as unknown as WalletView;
  return { stored, loads, view, rows: (): ViewRow[] => [...stored.keys()].map((n) => ({ n, flags: 1 })) };
}

test('final rows are read once; revertible rows are read each time, and not returned after a revert', async () => {
  const { stored, loads, view, rows } = world([payment(99, 1), payment(100, 2), payment(101, 3), payment(102, 4)]);
  const read = createDerivedRows(1_000_000).of(transfersDigest);
  const amounts = async () =>
    (await read(view, rows())).flatMap(({ derived }) => derived.transfers.map(({ amount }) => Number(amount)));
  assert.deepEqual(await amounts(), [1, 2, 3, 4]);
  loads.length = 0;
  // A reorg: one transaction is replaced, the other is removed.
  stored.set(positionOf(101, 0), payment(101, 33));
  const asked = rows();
  stored.delete(positionOf(102, 0));
  assert.deepEqual(
    (await read(view, asked)).map(({ row, derived }) => [row.n, Number(derived.transfers[0]?.amount)]),
    [
      [positionOf(99, 0), 1],
      [positionOf(100, 0), 2],
      [positionOf(101, 0), 33],
    ],
  );
  assert.deepEqual(loads, [positionOf(101, 0), positionOf(102, 0)]);
});

test('another wallet, another kind and rows above the store have separate derived rows', async () => {
  const one = payment(50, 5);
  const { view, loads, rows } = world([one]);
  const derivedRows = createDerivedRows(1_000_000);
  const transfers = derivedRows.of(transfersDigest);
  const history = derivedRows.of(historyRow);
  await transfers(view, rows());
  const sender = { ...view, id: 8, address: OTHER, key: decode32(OTHER)! };
  assert.equal((await transfers(sender, rows()))[0]?.derived.transfers[0]?.direction, 'out');
  assert.equal((await transfers(view, rows()))[0]?.derived.transfers[0]?.direction, 'in');
  assert.equal(
    (await history(view, rows()))[0]?.derived.text,
    JSON.stringify(historyElement(one, view.key, new Map())),
  );
  assert.equal(loads.length, 3);
  await transfers(view, [{ n: one.n, flags: 1, at: one }]);
  assert.equal(loads.length, 4);
});

test('memory is bounded', async () => {
  const { view, loads, rows } = world(Array.from({ length: 90 }, (_, at) => payment(at, 1 + at)));
  const read = createDerivedRows(20_000).of(historyRow);
  await read(view, rows());
  loads.length = 0;
  await read(view, rows().slice(-5));
  assert.equal(loads.length, 0);
  await read(view, rows());
  assert.ok(loads.length > 20, `${loads.length}`);
});

const mint = encode32(new Uint8Array(32).fill(3));
const facts = (changes: Partial<MintFacts>): MintFacts => ({
  mint,
  program: OTHER,
  decimals: 2,
  supply: 1n,
  name: null,
  symbol: null,
  uri: null,
  logoUri: null,
  tokenStandard: null,
  collection: null,
  isNft: false,
  scale: null,
  transferFee: null,
  ...changes,
});

test('a transfer contains the facts of its mint known at that moment', () => {
  const of = { signature: 'S', slot: 5, time: 60 };
  const row = {
    direction: 'in',
    counterparty: OTHER,
    mint,
    amount: 1_234n,
    decimals: 2,
    isFeeUnknown: false,
    mayBeScaled: true,
  } as const;
  const derived = { ...of, transfers: [] };
  const [plain] = [{ ...row, plain: ['{"before":1,"symbol":', ',"behind":2}'] as const }];
  const told = (transfer: typeof plain | (typeof row & { plain: null }), known: MintFacts | null, time = 60) =>
    JSON.parse(transferText(derived, transfer, time, known)) as Record<string, unknown>;
  assert.deepEqual(told(plain, null), { before: 1, symbol: null, behind: 2 });
  assert.deepEqual(told(plain, facts({ symbol: 'A"\\' })), { before: 1, symbol: 'A"\\', behind: 2 });
  // Cached rows are used for plain amounts only.
  const scale = { kind: 'multiplier', multiplier: 2, newMultiplier: 5, newFrom: 60 } as const;
  const head = { signature: 'S', timestamp: 60, direction: 'in', counterparty: OTHER, mint };
  const whole = { ...head, symbol: null, amount: 61.7, amountRaw: '1234', decimals: 2 };
  assert.deepEqual(told(plain, facts({ scale })), whole);
  assert.deepEqual(told(plain, facts({ scale }), 59), { ...whole, timestamp: 59, amount: 24.68 });
  const bare = { ...row, plain: null };
  assert.deepEqual(told(bare, null), { ...whole, amount: 12.34 });
  assert.deepEqual(Object.keys(told(bare, null)), Object.keys(whole));
  const transferFee = {
    older: { epoch: 0n, maximum: 100n, basisPoints: 1_000 },
    newer: { epoch: 9n, maximum: 1n, basisPoints: 1 },
  };
  const unknown = { ...bare, isFeeUnknown: true, decimals: null } as unknown as typeof bare;
  const net = { amount: 11.34, amountRaw: '1134', decimals: 2 };
  assert.deepEqual(told(unknown, facts({ transferFee })), { ...whole, ...net });
});
