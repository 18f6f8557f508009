/** A transaction is the same whatever way it came: read from the node when it is asked for, or in a block that the daemon followed, with and without a ledger. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { stringify } from '../../../src/lib/json.ts';
import { chainMissing, startChain } from '../../helpers/chain.ts';
import { startDaemon } from '../../helpers/daemon.ts';
import { createEconomy } from '../../helpers/wallet-economy.ts';

const SEED = 31;
const ENCODINGS = ['json', 'jsonParsed', 'base58', 'base64'];

interface Page {
  readonly data: readonly { readonly transaction: unknown; readonly slot: number }[];
  readonly paginationToken: string | null;
}

async function ask<T>(url: string, method: string, params: unknown): Promise<T> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  });
  const { result, error } = (await response.json()) as { result: T; error?: unknown };
  assert.equal(error, undefined, `${method}: ${JSON.stringify(error)}`);
  return result;
}

suite('a transaction from every source', { skip: (await chainMissing()) ?? false }, () => {
  for (const hours of [0, 1]) {
    test(`rows of an address are what the node answers, ${hours === 0 ? 'without' : 'with'} a ledger`, async (t) => {
      const chain = await startChain();
      t.after(() => chain.stop());
      const economy = await createEconomy(chain, SEED);
      await economy.run(12);
      const daemon = await startDaemon({
        chain,
        config: { plugins: ['access', 'proxy', 'token-metadata', 'wallet', 'history'], ledger: { retain: { hours } } },
      });
      t.after(() => daemon.stop());
      const [address] = economy.wallets as [string];
      const url = `${daemon.apiUrl}/?api-key=${daemon.key}`;
      const rows = async (encoding: string) => {
        const options = {
          encoding,
          maxSupportedTransactionVersion: 1,
          transactionDetails: 'full',
          limit: 100,
          commitment: 'confirmed',
        };
        return (await ask<Page>(url, 'getTransactionsForAddress', [address, options])).data;
      };
      const listed = async () =>
        await ask<{ signature: string }[]>(chain.rpcUrl, 'getSignaturesForAddress', [
          address,
          { limit: 100, commitment: 'confirmed' },
        ]);
      // The first answer begins to follow the address; what comes then is in blocks of the daemon.
      for (const when of ['read from the node', 'followed', 'final']) {
        if (when === 'followed') await economy.run(12);
        if (when === 'final') await chain.seal(40);
        for (let turn = 0; (await rows('json')).length < (await listed()).length; turn++) {
          assert.ok(turn < 300, `the daemon has all rows (${when})`);
          await new Promise((resolve) => setTimeout(resolve, 100));
        }
        const signatures = (await listed()).map(({ signature }) => signature);
        assert.ok(signatures.length > (when === 'final' ? 10 : 0), String(signatures.length));
        for (const encoding of ENCODINGS) {
          const shown = await rows(encoding);
          assert.equal(shown.length, signatures.length);
          for (const [at, signature] of signatures.entries()) {
            const options = { encoding, maxSupportedTransactionVersion: 1, commitment: 'confirmed' };
            const one = await ask(chain.rpcUrl, 'getTransaction', [signature, options]);
            assert.equal(stringify(shown[at]), stringify(one), `${when}, ${encoding}, ${signature}`);
          }
        }
      }
    });
  }
});
