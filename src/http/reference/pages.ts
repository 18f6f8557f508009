import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { brotliDecompressSync, gzipSync } from 'node:zlib';
import { Type } from '@sinclair/typebox';
import { CodedError } from '../../lib/coded-error.ts';
import { lazy } from '../../lib/lazy.ts';
import { defineRoute, type Reply, RequestError, type Route, type Tag } from '../../plugin/plugin.ts';

/** A file that is the same for everybody, with a validator. */
export interface StaticFile {
  bytes(): Buffer;
  /** Compressed with Brotli; null: it is not compressed. */
  readonly brotli: Buffer | null;
  /** Compressed with gzip, once: these files are open to everybody. */
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
  '.md': 'text/markdown; charset=utf-8',
  '.txt': 'text/plain; charset=utf-8',
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
    ETag: file.etag,
    'Cache-Control': 'no-cache',
    'X-Content-Type-Options': 'nosniff',
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

/** The guide: the pages of `docs/` as a site at `/docs/guide`. [guide/build.mjs](guide/build.mjs) makes it. */

export const DOCUMENTS: Tag = { name: 'Documentation', description: 'The interface as documents and as a page' };

/** Nothing inline and nothing from another host. */
export const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

type Files = ReadonlyMap<string, StaticFile>;

/** `/docs/guide` and its files. Links of the pages are relative, so the site starts at a file. */
export function guideRoutes(auth: 'none' | 'admin'): readonly Route[] {
  const common = { method: 'GET', tag: DOCUMENTS, auth, errors: 'plain' } as const;
  return [
    defineRoute({
      ...common,
      path: '/docs/guide',
      summary: 'The guide: tutorials, how-to, reference and explanation, with search',
      replies: { 302: Type.Null({ description: 'The first page' }) },
      handler: () => ({ status: 302, headers: { Location: '/docs/guide/index.html' } }),
    }),
    defineRoute({
      ...common,
      path: '/docs/guide/:file',
      summary: 'A page or file of the guide',
      params: Type.Object({ file: Type.String({ description: 'Name of the file', examples: ['index.html'] }) }),
      replies: {
        200: Type.String({ contentMediaType: '*/*', description: 'The file' }),
        302: Type.Null({ description: 'The page, for a name without .html' }),
      },
      async handler({ params: { file }, headers }) {
        if ((await files()).has(`${file}.html`))
          return { status: 302, headers: { Location: `/docs/guide/${file}.html` } };
        const markdown =
          file.endsWith('.html') && wantsMarkdown(headers['accept']) ? file.replace(/html$/, 'md') : file;
        const reply = fileReply(await guideFile(markdown), headers);
        const policy = { 'Content-Security-Policy': POLICY, 'Referrer-Policy': 'no-referrer' };
        const shared = { ...reply.headers, ...policy, 'Cross-Origin-Opener-Policy': 'same-origin' };
        return { ...reply, headers: file.endsWith('.html') ? variedByAccept(shared) : shared };
      },
    }),
  ];
}

/** Both listeners serve one copy. */
const files = lazy(readFiles);

/** A file of the guide. Throws 404. */
export async function guideFile(name: string): Promise<StaticFile> {
  const found = (await files()).get(name);
  if (found === undefined) throw new RequestError(404, 'invalid path');
  return found;
}

/** Whether a client asks for Markdown: programs name it, browsers do not. */
export const wantsMarkdown = (accept: string | string[] | undefined): boolean =>
  /\btext\/markdown\b(?!\s*;\s*q=0(\.0*)?\s*(,|$))/i.test(String(accept ?? ''));

/** Headers of an answer that is another one for clients that ask for Markdown. */
export const variedByAccept = (headers: Readonly<Record<string, string>>): Record<string, string> => ({
  ...headers,
  Vary: headers['Vary'] === undefined ? 'Accept' : `${headers['Vary']}, Accept`,
});

/** A build has the files, compressed, except one for `npm start`; there and beside the sources they are made now. */
async function readFiles(): Promise<Files> {
  const built = fileURLToPath(new URL('./guide/pages/', import.meta.url));
  if (existsSync(built)) {
    const names = readdirSync(built).map((name) => name.replace(/\.br$/, ''));
    return new Map(names.map((name) => [name, compressedFileOf(name, readFileSync(join(built, `${name}.br`)))]));
  }
  const builder = new URL('./guide/build.mjs', import.meta.url);
  if (!existsSync(builder))
    throw new CodedError('HTTP_DOCS_MISSING', 'the files of /docs/guide are missing: build the program');
  const { buildGuide } = (await import(builder.href)) as { buildGuide: () => Promise<ReadonlyMap<string, Buffer>> };
  return new Map([...(await buildGuide())].map(([name, bytes]) => [name, fileOf(name, bytes)]));
}

const icon = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><circle cx="16" cy="16" r="6" fill="#e8930c"/><path d="M3 16a13 13 0 0 1 26 0M3 16a13 13 0 0 0 26 0" fill="none" stroke="#e8930c" stroke-width="2" stroke-dasharray="4 4"/></svg>
`;

const PAGE = ['docs.js', 'docs.css'] as const;

/** The files of `/docs` by name, beside its document. Both listeners serve one copy. */
export const pageFiles = lazy(
  (): Files =>
    new Map([
      ...PAGE.map((name) => [name, readPageFile(name)] as const),
      ['icon.svg', fileOf('icon.svg', icon)] as const,
    ]),
);

/** A build has it compressed, except one for `npm start`. */
function readPageFile(name: string): StaticFile {
  const source = fileURLToPath(new URL(`./page/${name}`, import.meta.url));
  const built = `${source}.br`;
  return existsSync(built) ? compressedFileOf(name, readFileSync(built)) : fileOf(name, readFileSync(source));
}
