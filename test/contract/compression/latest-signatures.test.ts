import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { encode, encode64 } from '../../../src/lib/base58.ts';
import { createMethodBed } from '../../helpers/compression-methods.ts';
import { createCompressionTables, insertRows, setHead, signatureOf } from '../../helpers/compression-rows.ts';
import { eachStore } from '../../helpers/store.ts';

interface Made {
  readonly slot: number;
  readonly number: number;
  readonly error: string | null;
}
interface Answer {
  readonly value: { readonly items: readonly { readonly slot: number; readonly signature: string }[] };
}

const transaction = fc.record({
  slot: fc.integer({ min: 3, max: 7 }),
  number: fc.nat(1_000),
  error: fc.constantFrom(null, '{"InstructionError":[0,{"Custom":6}]}'),
});
const distinct = fc.uniqueArray(transaction, { maxLength: 30, selector: ({ number }) => number });

eachStore('latest signatures', (engine) => {
  test('those without votes are the newest of both kinds', async (t) => {
    const store = await engine.store(t);
    await createCompressionTables(store);
    await setHead(store, 8);
    const bed = createMethodBed(store);
    await fc.assert(
      fc.asyncProperty(distinct, fc.integer({ min: 1, max: 12 }), fc.nat(30), async (all, limit, from) => {
        // Every third one uses compression.
        const own = all.filter(({ number }) => number % 3 === 0);
        const slots = [3, 4, 5, 6, 7];
        await store.write(async ({ db }) => {
          for (const table of ['transactions', 'recent', 'blocks'])
            await db.deleteFrom(`compression_${table}`).execute();
        });
        await insertRows(store, {
          compression_transactions: own.map(({ slot, number, error }) => ({
            slot,
            signature: signatureOf(number),
            error,
          })),
          compression_recent: slots.map((slot) => {
            const others = all.filter((one) => one.slot === slot && one.number % 3 !== 0);
            const body = others.map(({ number, error }) => [encode64(signatureOf(number)), error]);
            return { slot, block_time: slot * 10, count: body.length, body: JSON.stringify(body) };
          }),
          compression_blocks: slots.map((slot) => ({ slot, block_time: slot * 10 })),
        });
        const newestFirst = (list: readonly Made[]) =>
          [...list].sort((a, b) => b.slot - a.slot || b.number - a.number).map(recordOf);
        const whole = await bed.call<Answer>('getLatestNonVotingSignatures');
        assert.deepEqual(whole.value, { items: newestFirst(all) });
        const place = all[from % Math.max(1, all.length)];
        const after = place === undefined ? [] : newestFirst(all.filter((one) => isAfter(one, place)));
        const cursor = place === undefined ? null : cursorOf(place);
        const page = await bed.call<Answer>('getLatestNonVotingSignatures', { limit, cursor });
        assert.deepEqual(page.value, { items: after.slice(0, limit) });
      }),
      { numRuns: 15 },
    );
  });
});

const recordOf = ({ slot, number, error }: Made) => ({
  signature: encode64(signatureOf(number)),
  slot,
  blockTime: slot * 10,
  error,
});
const isAfter = (one: Made, place: Made) =>
  one.slot < place.slot || (one.slot === place.slot && one.number < place.number);
function cursorOf({ slot, number }: Made): string {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(slot));
  return encode(Buffer.concat([bytes, signatureOf(number)]));
}
