/** Numbers of documents of other people, in every answer that shows them. */
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { encode32 } from '../../../src/lib/base58.ts';
import { metadataAddress } from '../../../src/solana/addresses.ts';
import { METADATA_PROGRAM, TOKEN_PROGRAM } from '../../../src/solana/programs.ts';
import { answer } from '../../helpers/receiver.ts';
import { eachStore } from '../../helpers/store.ts';
import { writeMint } from '../../helpers/write-mint.ts';
import { type Bed, metadataWith, startBed } from './harness.ts';

const NUMBERS = [
  '18446744073709551615',
  '9007199254740993',
  '-9223372036854775809',
  '340282366920938463463374607431768211456',
  '1e400',
  '-1e-400',
  '-0',
  '0.1',
  '0.12345678901234567890123',
  '123456789.123456789012',
  '1500',
  '7',
];
const attributes = `[${NUMBERS.map((value) => `{"trait_type":"t","value":${value}}`).join()}]`;
const DOCUMENT = `{"name":"n","description":9007199254740993,"attributes":${attributes},"seller_fee_basis_points":18446744073709551615,"properties":{"creators":[{"address":"a","share":9007199254740993}]}}`;
const KEY = 'a-key-of-the-first-project-of-this-daemon';

eachStore('numbers of documents', (engine) => {
  test('every answer shows them as they are, from the host, from the URI, and from the store after a restart', {
    timeout: 120_000,
  }, async (t) => {
    const { url: store } = await engine.database(t);
    const dataDir = await mkdtemp(join(tmpdir(), 'numbers-'));
    t.after(() => rm(dataDir, { recursive: true }));
    const [mint, inlineMint] = [encode32(Buffer.alloc(32, 1)), encode32(Buffer.alloc(32, 2))];
    let documentUrl: string | null = null;

    async function start(): Promise<Bed> {
      const bed = await startBed({
        place: { store, dataDir, key: KEY },
        sections: { das: { documentWaitMs: 30_000 } },
      });
      documentUrl ??= `${bed.documents.url}/1.json`;
      bed.upstream.on('getTokenLargestAccounts', () => ({ result: '{"context":{"slot":1000},"value":[]}' }));
      for (const [address, uri] of [
        [mint, documentUrl],
        [inlineMint, `data:application/json,${encodeURIComponent(DOCUMENT)}`],
      ] as const) {
        bed.accounts.set(address, { owner: TOKEN_PROGRAM, data: writeMint() });
        bed.accounts.set(metadataAddress(address), { owner: METADATA_PROGRAM, data: metadataWith(address, uri) });
      }
      return bed;
    }

    async function check(bed: Bed): Promise<void> {
      const ask = async (method: string, params: object): Promise<string> => {
        const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
        const url = `${bed.daemon.apiUrl}/?api-key=${bed.daemon.key}`;
        return await (await fetch(url, { method: 'POST', body })).text();
      };
      for (const id of [mint, inlineMint]) {
        for (const text of [
          await ask('getAsset', { id }),
          await ask('getAssetBatch', { ids: [id] }),
          await ask('getAssets', { ids: [id, id] }),
        ])
          for (const part of [`"attributes":${attributes}`, '"description":9007199254740993'])
            assert.ok(text.includes(part), `${part} in ${text}`);
        const { text } = await bed.ask({ mintAccounts: [id], includeOffChain: true });
        for (const value of NUMBERS)
          assert.ok(text.includes(`{"traitType":"t","value":"${value}"}`), `${value} in ${text}`);
        for (const part of ['"sellerFeeBasisPoints":18446744073709551615', '"share":"9007199254740993"'])
          assert.ok(text.includes(part), `${part} in ${text}`);
      }
    }

    const first = await start();
    first.documents.route('/1.json', answer(200, {}, DOCUMENT));
    try {
      await check(first);
    } finally {
      await first.stop();
    }
    // The host is gone: what it said is in the store.
    const second = await start();
    try {
      await check(second);
    } finally {
      await second.stop();
    }
  });
});
