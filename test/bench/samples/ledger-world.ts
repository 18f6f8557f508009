/**
 * The files of a ledger and its index of many rows, by the writers of both. Every block has the payload of one synthetic block, with
 * signatures of its own. The index is of addresses that are drawn, at places of these blocks.
 */
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import { emptyDictionary } from '../../../src/ledger/dictionary.ts';
import { segmentPath } from '../../../src/ledger/files.ts';
import { BLOCK, FINAL, INDEX, markOf, PARTS, readFrame, VERBATIM, writeFrame } from '../../../src/ledger/frame.ts';
import { payloadOf } from '../../../src/ledger/payload.ts';
import { KEY_ROWS, rowKey, rowsOf, signatureName } from '../../../src/ledger/rows.ts';
import { type IndexRow, type RunEntry, writeRun } from '../../../src/ledger/run.ts';
import { addFrame, hashNumber, indexOf, newSegment } from '../../../src/ledger/segment.ts';
import { encode32 } from '../../../src/lib/base58.ts';
import { decodeBlock } from '../../../src/solana/decode/decode-block.ts';
import { scanBlockAnswer } from '../../../src/solana/decode/scan-block.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';
import { syntheticBlock } from './synthetic-block.ts';

export interface LedgerWorld {
  readonly blocks: number;
  readonly transactions: number;
  readonly rows: number;
  /** Of the index, on disk. */
  readonly indexBytes: number;
  /** An address, and in how many transactions it occurs. Classes: in most blocks, in some, in a few. */
  address(kind: AddressKind, number: number): { readonly bytes: Buffer; readonly count: number };
  /** How many of each class. */
  readonly addresses: Readonly<Record<AddressKind, number>>;
  signature(slot: number, index: number): Buffer;
}

export const ADDRESS_KINDS = ['busy', 'common', 'rare'] as const;
export type AddressKind = (typeof ADDRESS_KINDS)[number];

const FIRST_SLOT = 1_000;
const SEGMENT_BYTES = 268_435_456;
/** As the index has it: so many blocks become a run, so many runs one of the next level. */
const RUN_BLOCKS = 256;
const FAN_IN = 8;
const BUSY = 16;
/** Of all rows. */
const COMMON_SHARE = 0.1;
const COMMON_ROWS = 1_000;
const RARE_ROWS = 8;
const BATCH = 512;
/** Of each class, of those that are asked for. */
const MAX_ADDRESSES = 10_000;

export const slotOf = (block: number): number => FIRST_SLOT + block;

/** `rows`: about so many; the exact number is of whole addresses. */
export async function plantLedger(
  dir: string,
  { rows, transactions, seed }: { readonly rows: number; readonly transactions: number; readonly seed: number },
): Promise<LedgerWorld> {
  const synthetic = syntheticBlock({ seed, transactions, slot: FIRST_SLOT });
  const block = decodeBlock(FIRST_SLOT, scanBlockAnswer(synthetic.body));
  const rowsOfBlock = rowsOf(block).rows.reduce((sum, { length }) => sum + length, 0);
  const blocks = Math.max(1, Math.round(rows / rowsOfBlock));
  const places = blocks * transactions;
  const random = createSfc32(seed);
  const noise = Buffer.from(random.fill(new Uint8Array(1 << 20)));

  /** The rank of the signature of a transaction among all: a permutation. */
  const [step, shift] = [coprime(places, 0.618), Math.floor(places / 3)];
  const inverse = inverseOf(step, places);
  const transactionAt = (rank: number) => multiply(inverse, (rank + places - shift) % places, places);
  const signature = (slot: number, index: number) => {
    const transaction = (slot - FIRST_SLOT) * transactions + index;
    return spread((multiply(step, transaction, places) + shift) % places, places, transaction, 64);
  };
  /** `length` bytes that begin with the rank, so that they ascend with it. */
  function spread(rank: number, of: number, salt: number, length: number): Buffer {
    const bytes = Buffer.alloc(length);
    noise.copy(bytes, 6, (salt * 61) % (noise.length - length));
    bytes.writeUIntBE(Math.floor((rank / of) * 2 ** 48), 0, 6);
    return bytes;
  }

  const hashes = await writeSegments();
  const common = Math.ceil((rows * COMMON_SHARE) / countOf('common'));
  const left = rows - places - BUSY * countOf('busy') - common * countOf('common');
  const total = BUSY + common + Math.max(1, Math.floor(left / countOf('rare')));
  const kindOf = (rank: number): AddressKind => {
    // Spread among the others, by their ranks.
    const every = Math.max(1, Math.floor(total / (BUSY + common)));
    if (rank % every !== 0 || rank / every >= BUSY + common) return 'rare';
    return rank / every < BUSY ? 'busy' : 'common';
  };
  function countOf(kind: AddressKind): number {
    if (kind === 'busy') return Math.min(Math.floor(places / 2), blocks * 4);
    return Math.min(Math.floor(places / 2), kind === 'common' ? COMMON_ROWS : RARE_ROWS);
  }
  const addressAt = (rank: number) => spread(rank, total, rank, 32);
  /** Places of an address from one transaction of all on, ascending. */
  function* placesOf(rank: number, from: number, to: number): Generator<number> {
    const count = countOf(kindOf(rank));
    const stride = places / count;
    for (let at = Math.max(0, Math.floor(from / stride) - 1); at < count; at += 1) {
      const mixed = noise.readUInt16LE(((rank * 7 + at) * 2) % (noise.length - 2));
      const place = Math.floor(at * stride) + Math.floor((mixed / 65_536) * Math.floor(stride));
      if (place >= to) return;
      if (place >= from) yield place;
    }
  }
  const rowAt = (place: number): IndexRow => ({
    slot: slotOf(Math.floor(place / transactions)),
    index: place % transactions,
    flags: 0,
  });

  async function* entries(from: number, to: number): AsyncGenerator<RunEntry[]> {
    let batch: RunEntry[] = [];
    for (let rank = 0; rank < total; rank += 1) {
      const found: IndexRow[] = [];
      for (const place of placesOf(rank, from, to)) found.push(rowAt(place));
      if (found.length > 0) batch.push({ name: rowKey(KEY_ROWS, addressAt(rank)), rows: found });
      if (batch.length < BATCH) continue;
      yield batch;
      batch = [];
    }
    for (let rank = 0; rank < places; rank += 1) {
      const place = transactionAt(rank);
      if (place < from || place >= to) continue;
      const row = rowAt(place);
      batch.push({ name: signatureName(signature(row.slot, row.index)), rows: [row] });
      if (batch.length < BATCH) continue;
      yield batch;
      batch = [];
    }
    yield batch;
  }

  let [written, indexBytes, number] = [0, 0, 1];
  for (let done = 0; done < blocks; ) {
    // The largest runs first: what is left is of lower levels, as it is in a ledger that grew.
    let level = 3;
    while (level > 0 && RUN_BLOCKS * FAN_IN ** level > blocks - done) level -= 1;
    const to = Math.min(blocks, done + RUN_BLOCKS * FAN_IN ** level);
    const slots = Array.from({ length: to - done }, (_, at) => slotOf(done + at));
    const path = join(dir, `${String(number++).padStart(10, '0')}.run`);
    const set = { slots, hashes: slots.map((slot) => hashes[slot - FIRST_SLOT]!) };
    const run = await writeRun(path, level, set, entries(done * transactions, to * transactions));
    written += run.rowCount;
    indexBytes += run.bytes;
    done = to;
  }

  async function writeSegments(): Promise<number[]> {
    const { bytes, flags } = await payloadOf(block, block.answer!.text(), emptyDictionary(), null);
    const payload = Buffer.from(bytes);
    if (flags !== PARTS) throw new Error('the synthetic block is not kept in pieces');
    const signaturesAt = payload.indexOf(Buffer.from(block.transactions[0]!.signatures[0]!));
    const written: number[] = [];
    const hashOf = (slot: number) => encode32(spread(slot + 1 - FIRST_SLOT, blocks + 1, slot, 32));
    for (let done = 0, number = 1; done < blocks; number += 1) {
      const segment = newSegment(number, segmentPath(dir, number));
      const file = await open(segment.path, 'w');
      const put = async (
        kind: number,
        flags: number,
        header: Parameters<typeof writeFrame>[0]['header'],
        of: Buffer,
      ) => {
        const bytes = writeFrame({ kind, flags, writtenAt: Date.now(), header }, of);
        const place = segment.bytes;
        await file.write(bytes, 0, bytes.length, place);
        addFrame(segment, readFrame(bytes)!, place);
      };
      for (; done < blocks && segment.bytes < SEGMENT_BYTES; done += 1) {
        const slot = slotOf(done);
        for (let index = 0, at = signaturesAt; index < transactions; index += 1, at += 68) {
          const own = signature(slot, index);
          own.copy(payload, at);
          payload.writeUInt32LE(crc32(own), at + 64);
        }
        const header = {
          ...block,
          slot,
          parentSlot: slot - 1,
          blockhash: hashOf(slot),
          previousBlockhash: hashOf(slot - 1),
        };
        await put(BLOCK, flags | VERBATIM, header, payload);
        written.push(hashNumber(header.blockhash));
      }
      await put(FINAL, 0, markOf(slotOf(done - 1)), Buffer.alloc(0));
      if (done < blocks) await put(INDEX, 0, markOf(0), indexOf(segment));
      await file.close();
    }
    return written;
  }

  const ranksOf = { busy: [] as number[], common: [] as number[], rare: [] as number[] };
  for (let rank = 0; rank < total; rank += 1) {
    const list = ranksOf[kindOf(rank)];
    if (list.length < MAX_ADDRESSES) list.push(rank);
  }
  return {
    blocks,
    transactions,
    rows: written,
    indexBytes,
    signature,
    addresses: { busy: ranksOf.busy.length, common: ranksOf.common.length, rare: ranksOf.rare.length },
    address: (kind, at) => ({ bytes: addressAt(ranksOf[kind][at]!), count: countOf(kind) }),
  };
}

/** A number without a common divisor, near a part of it. */
function coprime(of: number, part: number): number {
  const divisor = (a: number, b: number): number => (b === 0 ? a : divisor(b, a % b));
  let found = Math.max(1, Math.floor(of * part));
  while (divisor(found, of) !== 1) found += 1;
  return found;
}

function inverseOf(value: number, of: number): number {
  let [a, b, x, y] = [value, of, 1, 0];
  while (b !== 0) {
    const quotient = Math.floor(a / b);
    [a, b, x, y] = [b, a - quotient * b, y, x - quotient * y];
  }
  return ((x % of) + of) % of;
}

const multiply = (a: number, b: number, of: number) =>
  a * b < Number.MAX_SAFE_INTEGER ? (a * b) % of : Number((BigInt(a) * BigInt(b)) % BigInt(of));
