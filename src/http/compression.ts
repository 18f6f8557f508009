import { availableParallelism } from 'node:os';
import type { Transform } from 'node:stream';
import zlib from 'node:zlib';

export type Coding = 'gzip' | 'zstd';

/** Smaller answers fit into one packet, and decoding them costs a client more than it saves. */
const MIN_BYTES = 1_024;
/** Up to here compressing costs less than handing the work to another thread and back. */
const AT_ONCE_BYTES = 8_192;
/** JSON shrinks to a fifth at the lowest level; the higher ones take twice the time for a few percent. */
const LEVEL = 1;
/** Compressions that run in other threads at once; answers beyond that leave as they are: nobody keeps the machine busy with them. */
const MAX_RUNNING = 4 * availableParallelism();

const TEXT =
  /^(?:text\/(?!event-stream)|application\/(?:[\w.+-]*json|javascript|xml|openmetrics-text)|image\/svg\+xml)/i;

/** The functions of newer versions of Node (22.15 and 24) that the types of the oldest one lack. */
interface Zstd {
  readonly constants: { readonly ZSTD_c_compressionLevel: number; readonly ZSTD_e_flush: number };
  zstdCompress(data: Buffer, options: object, done: (error: Error | null, result: Buffer) => void): void;
  zstdCompressSync(data: Buffer, options: object): Buffer;
  createZstdCompress(options: object): Transform;
}
const zstd = 'createZstdCompress' in zlib ? (zlib as unknown as Zstd) : null;
const zstdOptions = zstd === null ? {} : { params: { [zstd.constants.ZSTD_c_compressionLevel]: LEVEL } };

/** Best first: what is taken where a client likes several equally. */
const OFFERED: readonly Coding[] = zstd === null ? ['gzip'] : ['zstd', 'gzip'];

/** Whether the answer has one form for those that can decode and one for the others; a length of null is that of a stream. */
export function isCompressible(contentType: string | null, length: number | null, headers: object): boolean {
  if (contentType === null || (length !== null && length <= MIN_BYTES) || !TEXT.test(contentType)) return false;
  return !Object.entries(headers).some(
    ([name, value]) =>
      /^(content-encoding|content-range)$/i.test(name) ||
      (/^cache-control$/i.test(name) && /no-transform/i.test(value)),
  );
}

/** The coding that a request takes most gladly, or null where it is not to be encoded. */
export function acceptedCoding(header: string | undefined, offered = OFFERED): Coding | null {
  if (header === undefined || header === '') return null;
  const weights = new Map<string, number>();
  for (const part of header.toLowerCase().split(',')) {
    const [name = '', ...params] = part.split(';').map((text) => text.trim());
    if (name !== '') weights.set(name === 'x-gzip' ? 'gzip' : name, weightOf(params));
  }
  const others = weights.get('*') ?? 0;
  let best: Coding | null = null;
  // What is not named stays acceptable, as the last choice.
  let least = weights.get('identity') ?? 0;
  for (const coding of offered) {
    const weight = weights.get(coding) ?? others;
    if (weight <= 0 || weight < least || (best !== null && weight === least)) continue;
    best = coding;
    least = weight;
  }
  return best;
}

/** 1 without a weight; 0, which refuses the coding, where it is malformed. */
function weightOf(params: readonly string[]): number {
  const text = params.find((param) => /^q\s*=/.test(param))?.replace(/^q\s*=\s*/, '');
  if (text === undefined) return 1;
  return /^(0(\.\d{0,3})?|1(\.0{0,3})?)$/.test(text) ? Number(text) : 0;
}

let running = 0;

/** A stream that compresses what is written to it and holds nothing back; null when too much is being compressed already. */
export function createCompressor(coding: Coding): Transform | null {
  if (running >= MAX_RUNNING) return null;
  running += 1;
  const compressor =
    coding === 'zstd' && zstd !== null
      ? zstd.createZstdCompress({ ...zstdOptions, flush: zstd.constants.ZSTD_e_flush })
      : zlib.createGzip({ level: LEVEL, flush: zlib.constants.Z_SYNC_FLUSH });
  return compressor.once('close', () => {
    running -= 1;
  });
}

/** The compressed bytes: at once for small ones, later for others, and null when too much is being compressed already. */
export function compress(coding: Coding, content: Buffer): Buffer | Promise<Buffer> | null {
  const isZstd = coding === 'zstd' && zstd !== null;
  if (content.length <= AT_ONCE_BYTES)
    return isZstd ? zstd.zstdCompressSync(content, zstdOptions) : zlib.gzipSync(content, { level: LEVEL });
  if (running >= MAX_RUNNING) return null;
  running += 1;
  return new Promise((resolve, reject) => {
    const done = (error: Error | null, result: Buffer) => {
      running -= 1;
      if (error === null) resolve(result);
      else reject(error);
    };
    if (isZstd) zstd.zstdCompress(content, zstdOptions, done);
    else zlib.gzip(content, { level: LEVEL }, done);
  });
}
