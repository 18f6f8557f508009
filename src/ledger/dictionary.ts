import { crc32 } from 'node:zlib';
import { ByteSink, ownText, Source } from './bytes.ts';

/** A run, and what stands behind it. */
export interface DictionaryToken {
  readonly kind: number;
  readonly run: Buffer;
}

/**
 * What many blocks have in common: keys, tokens, lines of logs, and bytes for the compressor. It is trained on the blocks before a
 * segment, and stands at its begin.
 */
export interface Dictionary {
  /** CRC of the serialized dictionary; 0 for the empty one. */
  readonly crc: number;
  /** 32 bytes each, the most frequent ones first. */
  readonly keys: Buffer;
  readonly tokens: readonly DictionaryToken[];
  readonly lines: readonly string[];
  /** What a part of a block looks like before it is compressed. */
  readonly preset: Buffer;
  /** Ranks of keys by their bytes as latin1. Filled for encoding only. */
  readonly keyIds: ReadonlyMap<string, number>;
  readonly lineIds: ReadonlyMap<string, number>;
  /** Numbers of keys by base58 text, and the reverse by rank: filled as they occur. */
  readonly textIds: Map<string, number>;
  readonly addresses: (string | undefined)[];
}

/** What a block used of a dictionary, and what that lacked: plain data, because the block may be encoded in another thread. */
export interface BlockUsage {
  /** By the rank of a key: 1 when the block has it. */
  readonly used: Uint8Array;
  /** Keys that the dictionary lacks, 32 bytes each. */
  readonly keys: Uint8Array;
  /** Lines of logs that were written in full, and how often. */
  readonly lines: ReadonlyMap<string, number>;
  readonly newTokens: readonly { readonly kind: number; readonly run: Uint8Array }[];
  /** Bytes of the block before compression; at most `MAX_PRESET_BYTES`. */
  readonly part: Uint8Array;
}

const MAX_KEYS = 65_536;
const MAX_LINES = 2_048;
const MAX_TOKENS = 512;
/** Deflate looks back 32 KiB. */
export const MAX_PRESET_BYTES = 32_000;
const MAX_COUNTED = 200_000;
const MIN_BYTES = 8_192;

type Content = Pick<Dictionary, 'keys' | 'tokens' | 'lines' | 'preset'>;

export const emptyDictionary = (): Dictionary =>
  readied({ keys: Buffer.alloc(0), tokens: [], lines: [], preset: Buffer.alloc(0) });

/** Options of the compressor for parts of blocks. */
export const presetOf = (preset: Buffer) => (preset.length === 0 ? {} : { dictionary: preset });

function readied(content: Content): Dictionary {
  const keyIds = new Map<string, number>();
  for (let rank = 0; rank * 32 < content.keys.length; rank++)
    keyIds.set(content.keys.toString('latin1', rank * 32, rank * 32 + 32), rank);
  const lineIds = new Map(content.lines.map((line, id) => [line, id]));
  const isEmpty = content.keys.length + content.tokens.length + content.lines.length + content.preset.length === 0;
  const crc = isEmpty ? 0 : crc32(writeDictionary(content));
  return { ...content, crc, keyIds, lineIds, textIds: new Map(), addresses: [] };
}

export function writeDictionary({ keys, tokens, lines, preset }: Content): Buffer {
  const out = new ByteSink();
  out.sized(keys);
  out.number(tokens.length);
  for (const { kind, run } of tokens) {
    out.byte(kind);
    out.sized(run);
  }
  out.number(lines.length);
  for (const line of lines) out.sized(Buffer.from(line, 'latin1'));
  out.sized(preset);
  return out.used;
}

/** Throws RangeError when the bytes are not of `writeDictionary`. */
export function readDictionary(bytes: Buffer): Dictionary {
  const source = new Source(bytes);
  const keys = source.sized();
  const tokens = Array.from({ length: source.room(source.number()) }, () => ({
    kind: source.byte(),
    run: source.sized(),
  }));
  const lines = Array.from({ length: source.room(source.number()) }, () => source.sized().toString('latin1'));
  return readied({ keys, tokens, lines, preset: source.sized() });
}

/** Counts what blocks use, to make the dictionary of the next segment; begins with what is in the one before. Bounded in memory. */
export function createTrainer(before: Dictionary) {
  const keys = new Map<string, number>();
  const lines = new Map<string, number>();
  const tokens = new Map<string, { readonly token: DictionaryToken; count: number }>();
  let preset: Buffer = Buffer.alloc(0);
  let blocks = 0;
  for (let at = 0; at < before.keys.length; at += 32) keys.set(before.keys.toString('latin1', at, at + 32), 1);
  for (const line of before.lines) lines.set(line, 2);
  for (const token of before.tokens) tokens.set(tokenKey(token), { token, count: 1 });
  if (before.preset.length > 0) preset = before.preset;

  return {
    get blocks() {
      return blocks;
    },
    /** `dictionary`: what the block was encoded with. */
    saw(dictionary: Dictionary, { used, keys: own, lines: written, newTokens, part }: BlockUsage): void {
      blocks += 1;
      for (let rank = 0; rank < used.length; rank++)
        if (used[rank] === 1) count(keys, dictionary.keys.toString('latin1', rank * 32, rank * 32 + 32), 1);
      const added = bufferOf(own);
      for (let at = 0; at < added.length; at += 32) count(keys, added.toString('latin1', at, at + 32), 1);
      for (const [line, times] of written) count(lines, lines.has(line) ? line : ownText(line), times);
      for (const token of [...dictionary.tokens, ...newTokens]) {
        const name = tokenKey(token);
        const known = tokens.get(name);
        if (known === undefined) tokens.set(name, { token: { kind: token.kind, run: bufferOf(token.run) }, count: 1 });
        else known.count += 1;
      }
      if (part.length >= Math.min(preset.length, MAX_PRESET_BYTES / 2)) preset = bufferOf(part);
      thin(keys);
      thin(lines);
      if (tokens.size > MAX_COUNTED / 10) tokens.clear();
    },
    /** The dictionary of what was seen, of at most about so many bytes; later blocks count more. */
    make(mostBytes: number): Dictionary {
      if (mostBytes < MIN_BYTES) return emptyDictionary();
      const least = blocks > 8 ? 2 : 1;
      const chosenKeys = most(keys, Math.min(MAX_KEYS, Math.floor(mostBytes / 64)), least);
      const chosen = [...tokens.values()].sort((a, b) => b.count - a.count).slice(0, MAX_TOKENS);
      const made = readied({
        keys: Buffer.concat(chosenKeys.map((key) => Buffer.from(key, 'latin1'))),
        tokens: chosen.map(({ token }) => token),
        lines: most(lines, Math.min(MAX_LINES, Math.floor(mostBytes / 512)), 2),
        preset: preset.subarray(0, mostBytes / 8),
      });
      for (const counts of [keys, lines]) for (const [name, times] of counts) counts.set(name, times / 2);
      return made;
    },
  };
}

const bufferOf = (bytes: Uint8Array) => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
const tokenKey = ({ kind, run }: BlockUsage['newTokens'][number]) => `${kind} ${bufferOf(run).toString('latin1')}`;

function count(counts: Map<string, number>, name: string, times: number): void {
  counts.set(name, (counts.get(name) ?? 0) + times);
}

/** Forgets the rarest. */
function thin(counts: Map<string, number>): void {
  for (let least = 1; counts.size > MAX_COUNTED; least *= 2)
    for (const [name, times] of counts) if (times <= least) counts.delete(name);
}

const most = (counts: ReadonlyMap<string, number>, limit: number, least: number) =>
  [...counts]
    .filter(([, times]) => times >= least)
    .sort(([, a], [, b]) => b - a)
    .slice(0, limit)
    .map(([name]) => name);
