import { createHash } from 'node:crypto';
import { extname } from 'node:path';
import { brotliDecompressSync, gzipSync } from 'node:zlib';
import { lazy } from '../../lib/lru.ts';
import type { Reply } from '../../plugin/plugin.ts';

/** A file that is the same for everybody, with a validator. */
export interface StaticFile {
  bytes(): Buffer;
  /** The same compressed; null: it is not. */
  readonly brotli: Buffer | null;
  /** The same for clients without Brotli, made once: strangers ask for these files. */
  gzip(): Buffer;
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
  return { ...common(name, bytes), bytes: () => bytes, brotli: null, gzip: lazy(() => gzipSync(bytes)) };
}

/** A file that a build has only compressed with Brotli, which every browser takes; it is unpacked for others. */
export function compressedFileOf(name: string, brotli: Buffer): StaticFile {
  const bytes = lazy(() => brotliDecompressSync(brotli));
  return { ...common(name, brotli), bytes, brotli, gzip: lazy(() => gzipSync(bytes())) };
}

export function fileReply(file: StaticFile, headers: Readonly<Record<string, string | string[] | undefined>>): Reply {
  const shared = {
    ...{ ETag: file.etag, 'Cache-Control': 'no-cache', 'X-Content-Type-Options': 'nosniff' },
    'Cross-Origin-Resource-Policy': 'same-origin',
  };
  if (headers['if-none-match'] === file.etag) return { status: 304, headers: shared };
  const accepted = String(headers['accept-encoding'] ?? '');
  const encoding =
    file.brotli !== null && accepts(accepted, 'br') ? 'br' : accepts(accepted, 'gzip') && isText(file) ? 'gzip' : null;
  const reply = { status: 200, contentType: file.contentType };
  if (encoding === null) return { ...reply, bytes: file.bytes(), headers: { ...shared, ...IDENTITY } };
  const encoded = { ...shared, 'Content-Encoding': encoding, Vary: 'Accept-Encoding' };
  return { ...reply, bytes: encoding === 'br' ? (file.brotli as Buffer) : file.gzip(), headers: encoded };
}

/** Nothing is compressed anew for a client that takes neither form. */
const IDENTITY = { 'Cache-Control': 'no-cache, no-transform', Vary: 'Accept-Encoding' };
const isText = ({ contentType }: StaticFile) => contentType !== 'application/octet-stream';
const accepts = (header: string, coding: string) =>
  new RegExp(`\\b${coding}\\b(?!\\s*;\\s*q=0(\\.0*)?\\s*(,|$))`).test(header);
