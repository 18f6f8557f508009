/** A daemon on a real node: what it says of the work of many clients is what the node says. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { bn } from '@lightprotocol/stateless.js';
import { PublicKey } from '@solana/web3.js';
import { decode32 } from '../../../src/lib/base58.ts';
import { createCall } from '../../e2e/compression/harness.ts';
import { type AgaveRelease, agaveMissing, namedNode, type SlotMs } from '../../helpers/agave.ts';
import { lightMissing } from '../../helpers/light/missing.ts';
import { plainProof } from '../../helpers/light/plain.ts';
import { createStateTrees } from '../../helpers/light/trees.ts';
import { checkNewestRoot, createFold, type V1Proof } from '../../helpers/light/v1-roots.ts';
import { postgresDatabase } from '../../helpers/store.ts';
import { type HistoryItem, walletClient } from '../../helpers/wallet-client.ts';
import { type AgaveBed, arrivedOnce, caughtUp, eventually, sameBytes, signaturesOf, startBed } from './harness.ts';
import { type Done, type LightWork, type Wallets, workOfKit, workOfLight, workOfTokens, workOfWeb3 } from './work.ts';

interface FollowedNode {
  readonly release: AgaveRelease;
  readonly consensus: 'Alpenglow' | 'TowerBFT';
  readonly slotMs: SlotMs;
  readonly engine: 'SQLite' | 'PostgreSQL';
}

/** The chain of today and the one before it; `npm run agave` names each release with each consensus that it has. */
const NODES: readonly FollowedNode[] = [
  { release: '4.4', consensus: 'Alpenglow', slotMs: 200, engine: 'SQLite' },
  { release: '4.2', consensus: 'TowerBFT', slotMs: 400, engine: 'PostgreSQL' },
];
const named = namedNode();
const nodes: readonly FollowedNode[] =
  named === null
    ? NODES
    : [{ ...named, consensus: named.alpenglow ? 'Alpenglow' : 'TowerBFT', slotMs: 200, engine: 'SQLite' }];
const lightReason = await lightMissing();
const EVERYTHING = { transactionTypes: ['ANY'] };
const MAX_BLOCKS = 10;
const AT_ONCE = 6;

for (const followed of nodes) {
  const { release, consensus, slotMs, engine } = followed;
  const skip = agaveMissing(release) ?? (lightReason || false);
  test(`Agave ${release} with ${consensus} and slots of ${slotMs} ms, followed on ${engine}`, { skip }, async (t) => {
    const bed = await start(t, followed);
    const [web3, kit, token, one, other, friend] = await bed.funded(6);
    const wallets = { web3, kit, token, friend, light: [one, other] } as Wallets;
    await caughtUp(bed);
    const watched = [web3, kit, token, one, other, friend].map((pair) => pair!.publicKey);
    const raw = await bed.watch('raw', watched);
    const batch = await bed.watch('batch', watched, { batchSize: 10 });
    const enhanced = await bed.watch('enhanced', watched, { webhookType: 'enhanced', ...EVERYTHING });
    const connection = bed.connect();
    const begun = performance.now();
    const works = [
      workOfWeb3(connection, wallets),
      workOfKit(bed, wallets),
      workOfTokens(connection, wallets, false),
      workOfTokens(connection, wallets, true),
      workOfLight(bed, wallets),
    ] as const;
    // Without the daemon, web3.js asks for the block height for ever: no client is left behind by the error of another.
    await Promise.allSettled(works);
    const [ofWeb3, ofKit, ofToken, ofToken2022, light] = await Promise.all(works);
    const done: Done[] = [...ofWeb3, ...ofKit, ...ofToken.done, ...ofToken2022.done, ...light.done];
    t.diagnostic(`${done.length} transactions named in ${Math.round(performance.now() - begun)} ms`);
    await caughtUp(bed);
    const accounts = [...ofToken.accounts, ...ofToken2022.accounts, ...light.accounts];

    await t.test('each webhook got each transaction once', async () => {
      const all = await sinceHooks(bed, [...watched, ...accounts]);
      const failed = new Set(done.filter(({ failed }) => failed).map(({ signature }) => signature));
      for (const { signature, name } of done) assert.ok(all.includes(signature), name);
      await Promise.all([
        arrivedOnce(raw, all),
        arrivedOnce(batch, all),
        arrivedOnce(
          enhanced,
          all.filter((signature) => !failed.has(signature)),
        ),
      ]);
    });

    await t.test('the history of a wallet is what the node lists for it and its token accounts, in order', async () => {
      const client = walletClient(bed.daemon);
      const owned = (index: number) => [ofToken.accounts[index], ofToken2022.accounts[index]] as PublicKey[];
      for (const [wallet, tokenAccounts] of [
        [web3, []],
        [kit, []],
        [token, owned(0)],
        [friend, owned(1)],
        [one, [light.accounts[0]!]],
        [other, [light.accounts[1]!]],
      ] as const) {
        const { publicKey } = wallet!;
        const truth = await signaturesOf(bed.node, [publicKey, ...tokenAccounts]);
        const told = await client.all<HistoryItem>(`${publicKey}/history?tokenAccounts=all`, 'before', [100]);
        assert.deepEqual(
          told.map(({ signature }) => signature),
          truth,
        );
      }
    });

    await t.test('transactions and blocks come byte for byte', () => checkBytes(bed, done));
    await t.test('compressed balances are the sum of what was done, and proofs are of the trees of the chain', () =>
      checkCompression(bed, light),
    );
  });
}

function start(t: TestContext, { release, consensus, slotMs, engine }: FollowedNode): Promise<AgaveBed> {
  const store = engine === 'PostgreSQL' ? { store: async () => (await postgresDatabase(t)).url } : {};
  return startBed(t, { release, alpenglow: consensus === 'Alpenglow', slotMs, light: true, ...store });
}

/** What the node lists without the payment that came before the webhooks. */
async function sinceHooks({ node }: AgaveBed, addresses: readonly PublicKey[]): Promise<string[]> {
  const first = await signaturesOf(node, [node.payer.publicKey]);
  return (await signaturesOf(node, addresses)).filter((signature) => !first.includes(signature));
}

async function checkBytes(bed: AgaveBed, done: readonly Done[]): Promise<void> {
  // Which of them landed in the last block is not known beforehand. What is final stays so.
  const open = done.map(({ signature }) => signature);
  await eventually(async () => {
    const options = { commitment: 'finalized', maxSupportedTransactionVersion: 1 };
    while (open.length > 0) {
      if ((await bed.node.call('getTransaction', [open[0], options])) === null) return `${open.length} are not final`;
      open.shift();
    }
    return null;
  });
  const slots = new Set<number>();
  await together(done, async ({ signature, name, version }) => {
    // Base58 has no form for version 1: nodes since 4.3 refuse the two together.
    for (const maxSupportedTransactionVersion of [0, 1])
      await sameBytes(bed, 'getTransaction', [signature, { encoding: 'base58', maxSupportedTransactionVersion }]);
    for (const encoding of ['json', 'jsonParsed', 'base64']) {
      const options = { encoding, commitment: 'finalized', maxSupportedTransactionVersion: 1 };
      const text = await sameBytes(bed, 'getTransaction', [signature, options]);
      const { result } = JSON.parse(text) as { result: { slot: number; version: unknown } };
      slots.add(result.slot);
      if (version !== undefined) assert.equal(result.version, version, name);
    }
    // As they come without options: a refusal, of what is not legacy.
    await sameBytes(bed, 'getTransaction', [signature]);
  });
  const some = [...slots].toSorted((one, other) => one - other);
  await together(some.slice(0, MAX_BLOCKS), async (slot) => {
    for (const encoding of ['json', 'jsonParsed', 'base64', 'base58'])
      for (const transactionDetails of ['full', 'accounts'])
        await sameBytes(bed, 'getBlock', [slot, { encoding, transactionDetails, maxSupportedTransactionVersion: 1 }]);
    for (const transactionDetails of ['signatures', 'none'])
      await sameBytes(bed, 'getBlock', [slot, { transactionDetails, rewards: false, commitment: 'confirmed' }]);
    await sameBytes(bed, 'getBlock', [slot]);
    await sameBytes(bed, 'getBlockTime', [slot]);
  });
}

async function together<T>(items: readonly T[], check: (item: T) => Promise<void>): Promise<void> {
  const left = [...items];
  const work = async () => {
    for (let item = left.shift(); item !== undefined; item = left.shift()) await check(item);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
}

async function checkCompression(bed: AgaveBed, { rpc, mint, lamports, tokens }: LightWork): Promise<void> {
  for (const [owner, sum] of lamports) {
    const balance = await rpc.getCompressedBalanceByOwner(new PublicKey(owner));
    assert.equal(String(balance), String(sum));
  }
  for (const [owner, sum] of tokens) {
    const { value } = await rpc.getCompressedTokenBalancesByOwnerV2(new PublicKey(owner), { mint });
    assert.deepEqual(
      value.items.map(({ balance }) => String(balance)),
      [String(sum)],
    );
  }
  const [fold, call] = [await createFold(), createCall(bed.url)];
  const isV1 = new Set(createStateTrees().v1.map(({ tree }) => String(tree)));
  let proofs = 0;
  for (const owner of lamports.keys()) {
    const [key, byMint] = [new PublicKey(owner), { mint }];
    const { items } = await rpc.getCompressedAccountsByOwner(key);
    const held = await rpc.getCompressedTokenAccountsByOwner(key, byMint);
    const hashes = [...items, ...held.items.map(({ compressedAccount }) => compressedAccount)].map(({ hash }) =>
      bn(hash),
    );
    for (const proof of (await rpc.getMultipleCompressedAccountProofs(hashes)).map(plainProof)) {
      if (isV1.has(proof.tree)) {
        const { value } = await call<{ value: V1Proof }>('getCompressedAccountProof', { hash: proof.hash });
        fold(value);
        await checkNewestRoot(bed.node.connection, value);
      } else {
        // The account keeps the roots that a proof may name; where in it is the program's business.
        const tree = await bed.node.connection.getAccountInfo(new PublicKey(proof.tree));
        const root = Buffer.from(decode32(proof.root) as Uint8Array);
        assert.ok(tree?.data.includes(root), `${proof.tree} never had ${proof.root}`);
      }
      proofs += 1;
    }
  }
  assert.ok(proofs >= 5, `${proofs} proofs`);
}
