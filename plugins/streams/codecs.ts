/** Compression of messages: gzip, and zstd on every version of Node. */
import type { Transform } from 'node:stream';
import { setImmediate as turn } from 'node:timers/promises';
import * as zlib from 'node:zlib';
import { zstdParts } from '../../src/lib/zstd.ts';

export type Encoding = 'identity' | 'gzip' | 'zstd';

export interface UnpackOptions {
  /** Most bytes of the message. */
  readonly maxBytes: number;
  /** Called with the bytes of the next part before it is unpacked; throws to refuse them. */
  reserve(bytes: number): void;
}

interface Codec {
  /** Whether messages to clients can be compressed. */
  canCompress(): boolean;
  compress(bytes: Buffer): Buffer;
  /** The message in parts, so that nothing is unpacked before its bytes are reserved. Errors: those of `reserve`, and any for a damaged message. */
  unpack(packed: Buffer, options: UnpackOptions): AsyncIterable<Uint8Array>;
}

/** Parts in which a message is unpacked. */
const PART_BYTES = 32_768;
const GZIP_LEVEL = 1;
const ZSTD_LEVEL = 1;

/** From Node 22.15 on. */
interface NativeZstd {
  zstdCompressSync(bytes: Buffer): Buffer;
  createZstdDecompress(options: { readonly chunkSize: number }): Transform;
}
const native = 'createZstdDecompress' in zlib ? (zlib as unknown as NativeZstd) : null;

/** Unpacks outside of this thread. */
const unpackBy = (createUnpacker: (options: { readonly chunkSize: number }) => Transform): Codec['unpack'] =>
  async function* unpack(packed, { reserve }) {
    const unpacker = createUnpacker({ chunkSize: PART_BYTES });
    try {
      reserve(PART_BYTES);
      unpacker.end(packed);
      for await (const part of unpacker as AsyncIterable<Buffer>) {
        yield part;
        reserve(PART_BYTES);
      }
    } finally {
      unpacker.destroy();
    }
  };

/** Bytes after which other work of the thread has its turn. */
const TURN_BYTES = 262_144;

async function* unpackHere(packed: Buffer, { maxBytes, reserve }: UnpackOptions): AsyncGenerator<Uint8Array> {
  let bytes = 0;
  for (const part of zstdParts(packed, { limit: maxBytes, reserve })) {
    yield part;
    bytes += part.length;
    if (bytes < TURN_BYTES) continue;
    bytes = 0;
    await turn();
  }
}

/** What is used of the package @hpcc-js/wasm-zstd: the compressor of zstd itself, in WebAssembly. */
interface WasmZstd {
  compress(bytes: Uint8Array, level: number): Uint8Array;
}
/** Loaded by its name: it is an optional package, which newer versions of Node do without. */
const WASM_PACKAGE = '@hpcc-js/wasm-zstd';
let wasm: WasmZstd | null = null;
let loading: Promise<void> | null = null;

async function load(): Promise<void> {
  try {
    const { Zstd } = (await import(WASM_PACKAGE)) as { readonly Zstd: { load(): Promise<WasmZstd> } };
    wasm = await Zstd.load();
  } catch {
    // Not installed: messages to clients are compressed with gzip, or not at all, as they allow.
  }
}

const CODECS: Readonly<Record<'gzip' | 'zstd', Codec>> = {
  gzip: {
    canCompress: () => true,
    compress: (bytes) => zlib.gzipSync(bytes, { level: GZIP_LEVEL }),
    unpack: unpackBy(zlib.createGunzip),
  },
  zstd:
    native === null
      ? {
          canCompress: () => wasm !== null,
          compress: (bytes) => Buffer.from(wasm!.compress(bytes, ZSTD_LEVEL)),
          unpack: unpackHere,
        }
      : {
          canCompress: () => true,
          compress: (bytes) => native.zstdCompressSync(bytes),
          unpack: unpackBy(native.createZstdDecompress),
        },
};

/** What requests may be compressed with. */
export const ENCODINGS = 'identity,zstd,gzip';

const NAMES = ['zstd', 'gzip'] as const;

function namesIn(accepted: string | string[] | undefined): readonly string[] {
  return String(accepted ?? '')
    .split(',')
    .map((name) => name.trim());
}

/** Loads what compresses messages for a client, if that is still missing; null: nothing has to be loaded. Never rejects. */
export function loadCodec(accepted: string | string[] | undefined): Promise<void> | null {
  if (native !== null || wasm !== null || !namesIn(accepted).includes('zstd')) return null;
  loading ??= load();
  return loading;
}

/** The best encoding of those that a client accepts. */
export function encodingOf(accepted: string | string[] | undefined): Encoding {
  const names = namesIn(accepted);
  for (const name of NAMES) if (names.includes(name) && CODECS[name].canCompress()) return name;
  return 'identity';
}

export const compress = (bytes: Buffer, encoding: 'gzip' | 'zstd'): Buffer => CODECS[encoding].compress(bytes);

/** Null for an encoding that is not known. */
export function unpackerOf(encoding: string | string[] | undefined): Codec['unpack'] | null {
  return encoding === 'gzip' || encoding === 'zstd' ? CODECS[encoding].unpack : null;
}
