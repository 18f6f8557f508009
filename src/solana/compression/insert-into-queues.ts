import type { ByteReader } from '../byte-reader.ts';
import { OUTPUT_BYTES, type PackedOutput, readOutput } from './accounts.ts';

const ANCHOR_BYTES = 12;
const SEQUENCE_BYTES = 80;

export interface SequenceRecord {
  readonly tree: Uint8Array;
  readonly queue: Uint8Array;
  readonly treeType: number;
  readonly seq: bigint;
}

/** What the system program asks of the compression program. Small indexes are into the instruction's accounts from the third on. */
export interface InsertIntoQueues {
  readonly txHash: Uint8Array;
  readonly leaves: readonly { readonly accountIndex: number; readonly hash: Uint8Array }[];
  readonly inputs: readonly {
    readonly hash: Uint8Array;
    readonly leafIndex: number;
    readonly treeIndex: number;
    readonly queueIndex: number;
  }[];
  readonly addresses: readonly {
    readonly address: Uint8Array;
    readonly treeIndex: number;
    readonly queueIndex: number;
  }[];
  readonly outputSequences: readonly SequenceRecord[];
  readonly inputSequences: readonly SequenceRecord[];
  readonly addressSequences: readonly SequenceRecord[];
  readonly leafIndexes: readonly number[];
  /** Outputs that came through the CPI context, before those of the system instruction. */
  readonly contextOutputs: readonly PackedOutput[];
}

/** Errors: LayoutError. */
export function readInsertIntoQueues(reader: ByteReader): InsertIntoQueues {
  reader.bytes(ANCHOR_BYTES);
  // Whether a program invoked it, a bump, and four counts that the lists tell again.
  reader.bytes(6);
  const txHash = reader.key();
  const leaves = reader.list(() => ({ accountIndex: reader.u8(), hash: reader.key() }), 33, reader.u8());
  const inputs = reader.list(
    () => {
      const hash = reader.key();
      const leafIndex = reader.u32();
      reader.u8();
      return { hash, leafIndex, treeIndex: reader.u8(), queueIndex: reader.u8() };
    },
    39,
    reader.u8(),
  );
  const addresses = reader.list(
    () => ({ address: reader.key(), treeIndex: reader.u8(), queueIndex: reader.u8() }),
    34,
    reader.u8(),
  );
  return {
    ...{ txHash, leaves, inputs, addresses },
    outputSequences: readSequences(reader),
    inputSequences: readSequences(reader),
    addressSequences: readSequences(reader),
    leafIndexes: reader.list(reader.u32, 4, reader.u8()),
    contextOutputs: reader.list(() => readOutput(reader), OUTPUT_BYTES),
  };
}

/** Records without a tree are padding. */
function readSequences(reader: ByteReader): readonly SequenceRecord[] {
  const records = reader.list(
    () => ({ tree: reader.key(), queue: reader.key(), treeType: Number(reader.u64()), seq: reader.u64() }),
    SEQUENCE_BYTES,
    reader.u8(),
  );
  return records.filter(({ tree }) => tree.some((byte) => byte !== 0));
}
