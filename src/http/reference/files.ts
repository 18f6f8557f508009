import { createHash } from 'node:crypto';
import { extname } from 'node:path';
import { brotliDecompressSync } from 'node:zlib';
import { lazy } from '../../lib/lru.ts';
import type { Reply } from '../../plugin/plugin.ts';

/** A file that is the same for everybody, with a validator. */
export interface StaticFile {
  bytes(): Buffer;
  /** The same compressed; null: it is sent as it is. */
  readonly brotli: Buffer | null;
  readonly contentType: string;
  readonly etag: string;
}

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.json': 'application/json; charset=utf-8',
  '.svg': 'image/svg+xml',
};

const common = (name: string, content: Buffer) => ({
  contentType: TYPES[extname(name)] ?? 'application/octet-stream',
  etag: `"${createHash('sha256').update(content).digest('base64url').slice(0, 27)}"`,
});

export function fileOf(name: string, content: string | Buffer): StaticFile {
  const bytes = Buffer.from(content as string);
  return { ...common(name, bytes), bytes: () => bytes, brotli: null };
}

/** A file that a build has only compressed with Brotli, which every browser takes; it is unpacked for others. */
export function compressedFileOf(name: string, brotli: Buffer): StaticFile {
  return { ...common(name, brotli), bytes: lazy(() => brotliDecompressSync(brotli)), brotli };
}

export function fileReply(file: StaticFile, headers: Readonly<Record<string, string | string[] | undefined>>): Reply {
  const shared = {
    ...{ ETag: file.etag, 'Cache-Control': 'no-cache', 'X-Content-Type-Options': 'nosniff' },
    'Cross-Origin-Resource-Policy': 'same-origin',
  };
  if (headers['if-none-match'] === file.etag) return { status: 304, headers: shared };
  const acceptsBrotli = /\bbr\b(?!\s*;\s*q=0(\.0*)?\s*(,|$))/.test(String(headers['accept-encoding'] ?? ''));
  if (file.brotli === null || !acceptsBrotli)
    return { status: 200, bytes: file.bytes(), contentType: file.contentType, headers: shared };
  const encoded = { ...shared, 'Content-Encoding': 'br', Vary: 'Accept-Encoding' };
  return { status: 200, bytes: file.brotli, contentType: file.contentType, headers: encoded };
}
