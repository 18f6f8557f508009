import assert from 'node:assert/strict';
import { test } from 'node:test';
import { OWN_WORK } from '../../src/ports/access.ts';
import { createWords } from '../../src/solana/parsers/parser.ts';
import { madeTransaction } from '../../test/helpers/parsed-found.ts';
import type { TransactionWithKeys } from './fetch.ts';
import type { Learned } from './interfaces/index.ts';
import { elementTexts, MAX_ANSWER_BYTES } from './transactions.ts';

const PROGRAM = 'JUP6LkbZbjS1jKKwapdHNy74zcZ3tLUZoi5QNyVTaV4';
const SLOT = 100;

/** How often the transaction was looked at is in `reads`. */
function create(logBytes = 0) {
  const reads: string[] = [];
  const learned: Learned = { find: () => null, versionsOf: () => [], with: () => learned };
  const interfaces = { learn: async () => learned };
  const made = (seed: number): TransactionWithKeys => {
    const { signature, tx, keys, entry } = madeTransaction(SLOT, seed, PROGRAM, [1]);
    const meta = { ...entry.meta, logMessages: ['x'.repeat(logBytes)] };
    return {
      signature,
      slot: SLOT,
      blockTime: null,
      tx,
      keys,
      async text() {
        reads.push(signature);
        return Buffer.from(JSON.stringify({ ...entry, meta }));
      },
    };
  };
  return { reads, made, parts: { interfaces, ownOf: async () => null, words: createWords(null) } };
}

const wanted = (found: TransactionWithKeys) => ({ signature: found.signature, found });

test('a signature that is given many times is parsed once', async () => {
  const { reads, made, parts } = create();
  const [first, second] = [made(1), made(2)];
  const list = [first, second, ...Array.from({ length: 98 }, () => first)].map(wanted);
  const texts = await elementTexts(list, 'json', parts, { tenant: OWN_WORK, signal: new AbortController().signal });
  assert.deepEqual(reads, [first.signature, second.signature]);
  assert.deepEqual(
    texts.map((text) => (JSON.parse(text) as { signature: string }).signature),
    list.map(({ signature }) => signature),
  );
});

test('other work has its turn between elements, and a call that is given up ends', async () => {
  const { reads, made, parts } = create();
  const controller = new AbortController();
  const list = Array.from({ length: 50 }, (_, at) => wanted(made(at + 1)));
  const texts = elementTexts(list, 'json', parts, { tenant: OWN_WORK, signal: controller.signal });
  setImmediate(() => controller.abort(new Error('given up')));
  await assert.rejects(texts, /given up/);
  assert.ok(reads.length < list.length, `${reads.length} elements`);
});

test('an answer that is too large is refused and charged', async () => {
  const { made, parts } = create(MAX_ANSWER_BYTES / 50);
  const list = Array.from({ length: 100 }, () => wanted(made(1)));
  const asker = { tenant: OWN_WORK, signal: new AbortController().signal };
  await assert.rejects(elementTexts(list, 'json', parts, asker), { status: 400, isCharged: true });
  assert.equal((await elementTexts(list.slice(0, 40), 'json', parts, asker)).length, 40);
});
