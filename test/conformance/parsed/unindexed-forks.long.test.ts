/** Scans of the address of a program on a chain that forks: a token means the transaction at which its page ended. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Keypair } from '@solana/web3.js';
import { chainMissing, startChain } from '../../helpers/chain.ts';
import { startDaemon } from '../../helpers/daemon.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';

const SYSTEM = '11111111111111111111111111111111';
const SEED = 20_261_129;

interface Answer {
  readonly error?: string;
  readonly details?: string;
  readonly data?: readonly { readonly signature: string }[];
  readonly paginationToken?: string;
}

test('pages of a program lose nothing in either order when a fork moves transactions between them, and newest first repeat nothing', {
  skip: (await chainMissing()) ?? false,
  timeout: 120_000,
}, async (t) => {
  const random = createSfc32(SEED);
  const chain = await startChain();
  t.after(() => chain.stop());
  const sent: string[] = [];
  const send = async (count: number) => {
    for (let at = 0; at < count; at += 1)
      sent.push(await chain.fund(Keypair.generate().publicKey.toBase58(), 1_000_000 + random.below(1_000)));
  };
  await send(40);
  await chain.seal(40);
  await send(12);
  const daemon = await startDaemon({
    chain,
    config: { plugins: ['access', 'proxy', 'wallet', 'history', 'parsed'] },
  });
  t.after(() => daemon.stop());

  async function page(body: object): Promise<Answer> {
    for (let left = 100; ; left -= 1) {
      const response = await fetch(`${daemon.apiUrl}/v1/parsed-events/scan?api-key=${daemon.key}`, {
        method: 'POST',
        body: JSON.stringify(body),
      });
      const json = (await response.json()) as Answer;
      if (response.status === 200) return json;
      // The upstream may be behind what the follower has seen of the other branch.
      assert.ok(response.status === 503 && left > 0, `${response.status} ${json.error} ${json.details}`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  for (const sortOrder of ['desc', 'asc'] as const)
    for (const depth of [1, 4, 9]) {
      await send(3);
      const known = sent.length;
      const wanted = sortOrder === 'asc' ? [...sent] : sent.toReversed();
      const found: string[] = [];
      let paginationToken: string | undefined;
      let pages = 0;
      do {
        const token = paginationToken === undefined ? {} : { paginationToken };
        const match = { programs: [{ programId: SYSTEM }] };
        const json = await page({ address: SYSTEM, sortOrder, match, limit: 7, ...token });
        found.push(...json.data!.map(({ signature }) => signature));
        paginationToken = json.paginationToken;
        pages += 1;
        // The newest transactions move to later slots, in the same order; what an earlier page ended at may be among them.
        if (pages === (sortOrder === 'desc' ? 1 : 7)) {
          const { lost } = await chain.fork({ depth, replay: 'all' });
          assert.deepEqual(lost, []);
        }
      } while (paginationToken !== undefined);
      assert.equal(sent.length, known);
      const own = found.filter((signature) => sent.includes(signature));
      // Oldest first, what moved up comes again rather than being skipped: nobody can tell a page that it was on another branch.
      const distinct = [...new Set(own)];
      assert.deepEqual(distinct, wanted, `${sortOrder} at depth ${depth}`);
      if (sortOrder === 'desc') assert.equal(own.length, distinct.length, `${own.length - distinct.length} come twice`);
    }
});
