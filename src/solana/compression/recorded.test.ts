/** Recorded transactions of the Light programs: events are read, and every account hashes to its leaf. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { listFixtures, readJsonFixture, skipWithoutFixtures } from '../../../test/helpers/fixtures.ts';
import { decode32, encode32 } from '../../lib/base58.ts';
import { decodeTransaction } from '../decode/decode-block.ts';
import { createPoseidon } from '../merkle/poseidon.ts';
import { createAccountHasher } from './accounts.ts';
import { decodeCompression } from './decode-compression.ts';
import type { CompressionEvent, CreatedOutput } from './events.ts';
import { createProgramFinder } from './instructions.ts';

interface Expected {
  readonly compressionProgramId: string;
  readonly events: Readonly<Record<string, number>>;
  readonly trees: Readonly<Record<string, { readonly type: number; readonly queue: string | null }>>;
  readonly steps: readonly {
    readonly file: string;
    readonly batchEvents?: readonly { readonly kind: string; readonly seq: number; readonly eventNewRoot: string }[];
  }[];
  readonly accounts: readonly {
    readonly hash: string;
    readonly owner: string;
    readonly lamports: string;
    readonly address: string | null;
    readonly data: { readonly dataBase64: string; readonly dataHash: string } | null;
    readonly tree: string;
    readonly leafIndex: number;
    readonly seq: number | null;
    readonly nullifierQueueIndex: number | null;
    readonly nullifier: string | null;
  }[];
  readonly addressQueueAfterLastStep: Readonly<Record<string, readonly string[]>>;
}

const skip = skipWithoutFixtures;
const FOLDER = 'compression';
const hasher = createAccountHasher(createPoseidon());

function load(name: string) {
  const expected = readJsonFixture<Expected>(`${FOLDER}/expected/${name}.json`);
  const find = createProgramFinder(expected.compressionProgramId);
  const read = (transaction: unknown) => {
    const block = decodeTransaction(transaction);
    return decodeCompression(block.transactions[0]!, block.keys, find(block.keys));
  };
  const recorded = expected.steps.map(({ file }) => readJsonFixture(`${FOLDER}/transactions/${name}/${file}`));
  return { expected, read, recorded };
}

const NAMES = { nullify: 'V2', indexed: 'V3', append: 'BA', batchNullify: 'BN', addressAppend: 'BAA' } as const;
const nameOf = (event: CompressionEvent) => (event.kind !== 'transaction' ? NAMES[event.kind] : `v${event.version}`);
const text = (bytes: Uint8Array | null) => (bytes === null ? null : encode32(bytes));

const names =
  skip === false ? listFixtures(`${FOLDER}/expected`).map((path) => path.split('/').at(-1)!.slice(0, -5)) : [];

test('recordings exist', { skip }, () => assert.equal(names.length, 8));

for (const name of names) {
  test(`${name}: events, accounts and hashes`, () => {
    const { expected, read, recorded } = load(name);
    const decoded = recorded.map(read);
    assert.deepEqual(
      decoded.flatMap(({ faults }) => faults),
      [],
    );
    const events = decoded.flatMap((one) => one.events);
    const counts: Record<string, number> = {};
    for (const event of events) counts[nameOf(event)] = (counts[nameOf(event)] ?? 0) + 1;
    assert.deepEqual(counts, expected.events);

    const outputs = events.flatMap((event) => (event.kind === 'transaction' ? event.outputs : []));
    const treeOf = ({ tree, treeOrQueue }: CreatedOutput) => {
      if (tree !== null) return encode32(tree);
      const own = encode32(treeOrQueue);
      return Object.entries(expected.trees).find(([, { queue }]) => queue === own)?.[0];
    };
    const seen = outputs.map((output) => ({
      hash: encode32(output.hash),
      owner: encode32(output.account.owner),
      lamports: String(output.account.lamports),
      address: text(output.account.address),
      data:
        output.account.data === null
          ? null
          : {
              dataBase64: Buffer.from(output.account.data.bytes).toString('base64'),
              dataHash: encode32(output.account.data.hash),
            },
      tree: treeOf(output),
      leafIndex: output.leafIndex,
    }));
    const wanted = expected.accounts.map(({ hash, owner, lamports, address, data, tree, leafIndex }) => ({
      hash,
      owner,
      lamports,
      address,
      tree,
      leafIndex,
      data: data === null ? null : { dataBase64: data.dataBase64, dataHash: data.dataHash },
    }));
    const byHash = (a: { hash: string }, b: { hash: string }) => (a.hash < b.hash ? -1 : 1);
    assert.deepEqual(seen.sort(byHash), wanted.sort(byHash));

    for (const output of outputs) {
      const tree = decode32(treeOf(output)!)!;
      const version = output.treeType === 1 ? 1 : 2;
      assert.equal(encode32(hasher.hash(output.account, tree, output.leafIndex, version)), encode32(output.hash));
      const row = expected.accounts.find(({ hash }) => hash === encode32(output.hash))!;
      if (version === 1) assert.equal(output.seq, BigInt(row.seq!));
      else assert.equal(output.seq, null);
    }
  });

  test(`${name}: queues and batches`, () => {
    const { expected, read, recorded } = load(name);
    const events = recorded.flatMap((transaction) => read(transaction).events);
    for (const event of events) {
      if (event.kind !== 'transaction') continue;
      for (const { hash, queued } of event.inputs) {
        const row = expected.accounts.find((account) => account.hash === encode32(hash));
        if (row === undefined) continue;
        assert.equal(
          queued?.queueIndex ?? null,
          row.nullifierQueueIndex === null ? null : BigInt(row.nullifierQueueIndex),
        );
        if (queued === null) continue;
        assert.equal(encode32(queued.tree), row.tree);
        assert.equal(queued.leafIndex, row.leafIndex);
        assert.equal(encode32(hasher.nullifier(hash, queued.leafIndex, event.txHash)), row.nullifier);
      }
    }
    const batches = events.flatMap((event) =>
      'newRoot' in event ? [[Number(event.seq), encode32(event.newRoot)]] : [],
    );
    const wanted = expected.steps.flatMap(({ batchEvents = [] }) =>
      batchEvents.map((one) => [one.seq, one.eventNewRoot]),
    );
    assert.deepEqual(batches, wanted);
  });

  test(`${name}: damaged instructions give the same result or a fault, and never throw`, () => {
    const { read, recorded } = load(name);
    for (const transaction of recorded.slice(0, 12)) {
      const whole = JSON.stringify(transaction);
      const sound = read(transaction).events.length;
      for (let round = 0; round < 40; round += 1) {
        const { events, faults } = read(damaged(JSON.parse(whole), round));
        assert.ok(events.length + faults.length <= sound + 1);
      }
    }
  });
}

interface Recorded {
  readonly meta: { readonly innerInstructions: readonly { readonly instructions: { data: string }[] }[] };
}

/** Truncates or changes characters of one inner instruction; the rest stays base58. */
function damaged(transaction: Recorded, round: number): Recorded {
  const all = transaction.meta.innerInstructions.flatMap(({ instructions }) => instructions);
  const one = all[round % Math.max(1, all.length)];
  if (one === undefined || one.data.length < 4) return transaction;
  const at = (round * 7919) % one.data.length;
  one.data = round % 2 === 0 ? one.data.slice(0, at + 1) : `${one.data.slice(0, at)}2${one.data.slice(at + 1)}`;
  return transaction;
}
