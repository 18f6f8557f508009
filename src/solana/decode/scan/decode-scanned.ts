import { decode32 } from '../../../lib/base58.ts';
import type { ChainBlock, NormalTransaction } from '../../../ports/block.ts';
import { decodeHeader } from '../decode-header.ts';
import { isVote } from '../is-vote.ts';
import { createKeyTable, expectedKeys } from '../key-table.ts';
import { type BlockParts, LeanTransaction } from '../transaction.ts';
import { walkWire } from '../walk-wire.ts';
import { base64Length } from '../wire-bytes.ts';
import { emptyLayout, type WireLayout } from '../wire-layout.ts';
import type { WireReader } from '../wire-reader.ts';
import { eachTableKey, repeatedSignature } from '../wire-views.ts';
import { IdPool } from './id-pool.ts';
import type { ScannedBlock, ScannedEntry, TextRange } from './scanned-block.ts';
import { createTextIds, type TextIds } from './text-ids.ts';

/** The block of a decoding under way. */
interface Decoding {
  readonly scanned: ScannedBlock;
  readonly block: BlockParts;
  readonly view: DataView;
  readonly texts: TextIds;
  readonly pool: IdPool;
  readonly noOwners: Uint32Array;
}

/**
 * The same block as from the parsed answer, with each `meta` parsed when it is first asked for. Null when anything about the
 * transactions is wrong or unusual: the parsed answer tells what. Throws CHAIN_BAD_BLOCK for a bad header.
 */
export function decodeScanned(slot: number, scanned: ScannedBlock): ChainBlock | null {
  const header = decodeHeader(slot, scanned.header);
  const wires = wiresOf(scanned);
  if (wires === null) return null;
  const { bytes, starts } = wires;
  const seed = decode32(header.blockhash)!;
  const keys = createKeyTable(new Uint32Array(seed.slice().buffer), expectedKeys(scanned.entries.length));
  const decoding: Decoding = {
    scanned,
    block: { slot, bytes, keys },
    view: new DataView(bytes.buffer, bytes.byteOffset, bytes.length),
    texts: createTextIds(scanned.body, keys, expectedKeys(scanned.entries.length)),
    pool: new IdPool(),
    noOwners: new Uint32Array(0),
  };
  const reader: WireReader = { bytes, at: 0, end: 0 };
  const transactions: NormalTransaction[] = [];
  const signaturesAt: number[] = [];
  for (let index = 0; index < scanned.entries.length; index++) {
    reader.at = starts[index]!;
    reader.end = starts[index + 1]!;
    const layout = emptyLayout();
    const transaction = walkWire(reader, layout) === null ? decodeEntry(decoding, layout, index) : null;
    if (transaction === null) return null;
    transactions.push(transaction);
    signaturesAt.push(layout.signaturesAt);
  }
  if (repeatedSignature(bytes, signaturesAt) >= 0) return null;
  return { ...header, transactions, keys };
}

/** The bytes of all transactions one after the other; null when one is not base64. */
function wiresOf({ body, entries }: ScannedBlock): { bytes: Buffer; starts: Uint32Array } | null {
  const texts = entries.map(({ wireFrom, wireTo }) => body.toString('latin1', wireFrom, wireTo));
  let total = 0;
  for (const text of texts) total += Math.max(0, base64Length(text));
  const bytes = Buffer.allocUnsafeSlow(total);
  const starts = new Uint32Array(entries.length + 1);
  let at = 0;
  for (let index = 0; index < texts.length; index++) {
    const text = texts[index]!;
    const length = base64Length(text);
    if (length < 0 || bytes.write(text, at, 'base64') !== length) return null;
    at += length;
    starts[index + 1] = at;
  }
  return { bytes, starts };
}

function decodeEntry(decoding: Decoding, layout: WireLayout, index: number): NormalTransaction | null {
  const { scanned, block, view, pool } = decoding;
  const { meta } = scanned.entries[index]!;
  const { writable, readonly } = meta;
  if (writable.count !== layout.loadedWritable || readonly.count !== layout.loadedReadonly) return null;
  const keyCount = layout.keyCount + writable.count + readonly.count;
  if (meta.preBalances !== keyCount || meta.postBalances !== keyCount || meta.largestIndex >= keyCount) return null;
  if (meta.largestGroup >= layout.instructionCount) return null;
  pool.begin(keyCount);
  for (let number = 0; number < layout.keyCount; number++)
    pool.add(block.keys.intern(view, layout.keysAt + number * 32));
  if (!intern(decoding, writable) || !intern(decoding, readonly)) return null;
  const keys = pool.end();
  const tokenOwners = ownersOf(decoding, scanned.entries[index]!);
  if (tokenOwners === null) return null;
  if (layout.lookupCount > 0) eachTableKey(block.bytes, layout, (at) => block.keys.intern(view, at));
  return new LeanTransaction(block, {
    index,
    version: layout.version < 0 ? 'legacy' : layout.version,
    layout,
    keys,
    loadedWritableCount: writable.count,
    tokenOwners,
    isVote: isVote(block, layout, keys, 0),
    meta: null,
    metaText: { body: scanned.body, from: meta.from, to: meta.to, hasError: meta.hasError },
  });
}

/** Puts loaded addresses into the table and their ids into the list; false when one is no address. */
function intern({ scanned, texts, pool }: Decoding, range: TextRange): boolean {
  for (let number = 0; number < range.count; number++) {
    const at = (range.at + number) * 2;
    const id = texts.idOf(scanned.texts[at]!, scanned.texts[at + 1]!);
    if (id < 0) return false;
    pool.add(id);
  }
  return true;
}

/** Puts mints, programs and owners into the table; the distinct owners, or null when one of all these is no address. */
function ownersOf(decoding: Decoding, { meta }: ScannedEntry): Uint32Array | null {
  const { preTokens, postTokens } = meta;
  if (preTokens.count + postTokens.count === 0) return decoding.noOwners;
  decoding.pool.begin(preTokens.count + postTokens.count);
  return internTokens(decoding, preTokens) && internTokens(decoding, postTokens) ? decoding.pool.end() : null;
}

function internTokens({ scanned, texts: ids, pool }: Decoding, { at, count }: TextRange): boolean {
  const { texts } = scanned;
  for (let place = at * 2; place < (at + count) * 2; place += 6) {
    if (ids.idOf(texts[place]!, texts[place + 1]!) < 0) return false;
    if (texts[place + 3]! > 0 && ids.idOf(texts[place + 2]!, texts[place + 3]!) < 0) return false;
    if (texts[place + 5] === 0) continue;
    const owner = ids.idOf(texts[place + 4]!, texts[place + 5]!);
    if (owner < 0) return false;
    pool.addNew(owner);
  }
  return true;
}
