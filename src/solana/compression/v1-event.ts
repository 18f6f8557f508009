import { equalBytes } from '../../lib/equal-bytes.ts';
import { type ByteReader, createByteReader, LayoutError } from '../byte-reader.ts';
import { keyAt, OUTPUT_BYTES, readOutput } from './accounts.ts';
import { TREE_TYPE, type TransactionEvent } from './events.ts';

const NO_HASH = new Uint8Array(32);

/** Reads the event that a V1 call leaves in the data of a noop. Errors: LayoutError. */
export function readV1Event(data: Uint8Array): TransactionEvent {
  const reader = createByteReader(data);
  const inputs = reader.list(reader.key, 32);
  const hashes = reader.list(reader.key, 32);
  const outputs = reader.list(() => readOutput(reader), OUTPUT_BYTES);
  const leafIndexes = reader.list(reader.u32, 4);
  const sequences = reader.list(() => ({ tree: reader.key(), seq: reader.u64() }), 40);
  reader.option(reader.u64);
  reader.bool();
  reader.option(reader.u64);
  const keys = reader.list(reader.key, 32);
  reader.option(reader.blob);
  const wallets = readWallets(reader);
  if (hashes.length !== outputs.length || leafIndexes.length !== outputs.length)
    throw new LayoutError(`${hashes.length} hashes, ${leafIndexes.length} indexes, ${outputs.length} accounts`);
  return {
    kind: 'transaction',
    version: 1,
    inputs: inputs.map((hash) => ({ hash, queued: null })),
    outputs: outputs.map(({ account, treeIndex }, i) => {
      const tree = keyAt(keys, treeIndex);
      const counter = sequences.find((one) => equalBytes(one.tree, tree));
      if (counter === undefined) throw new LayoutError('a tree without a sequence number');
      counter.seq += 1n;
      return {
        ...{ account, tree, treeOrQueue: tree, treeType: TREE_TYPE.stateV1, seq: counter.seq - 1n },
        hash: hashes[i] as Uint8Array,
        leafIndex: leafIndexes[i] as number,
        wallet: wallets.get(i) ?? null,
      };
    }),
    newAddresses: [],
    txHash: NO_HASH,
    missesQueueIndexes: [],
  };
}

/** Newer programs end with the wallets of associated token accounts; anything else at the end is none of ours. */
function readWallets(reader: ByteReader): ReadonlyMap<number, Uint8Array> {
  try {
    const wallets = reader.list(() => [reader.u8(), reader.key()] as const, 33);
    return reader.left > 0 ? new Map() : new Map(wallets);
  } catch (error) {
    if (error instanceof LayoutError) return new Map();
    throw error;
  }
}
