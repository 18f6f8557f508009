import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Type } from '@sinclair/typebox';
import { CodedError, defineRoute, type Reply, RequestError, type Route } from '../../../src/plugin/plugin.ts';
import { DASHBOARD_ERRORS } from '../errors.ts';

/** No external resources, nothing inline, no frames. */
const HEADERS: Readonly<Record<string, string>> = {
  'Content-Security-Policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
  'Referrer-Policy': 'no-referrer',
  'X-Frame-Options': 'DENY',
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Cache-Control': 'no-cache',
};

/** The files of the pages. They contain no secrets and are served without a login. */
export function pageRoutes(files: () => ReadonlyMap<string, PageFile>): readonly Route[] {
  const serve = (name: string, match: string | string[] | undefined): Reply => {
    const file = files().get(name);
    if (file === undefined) throw new RequestError(404, 'invalid path');
    const headers = { ...HEADERS, ETag: file.etag };
    if (match === file.etag) return { status: 304, headers };
    return { status: 200, headers, bytes: file.bytes, contentType: file.contentType };
  };
  const common = { method: 'GET', tag: 'Dashboard', auth: 'admin', errors: 'plain' } as const;
  return [
    defineRoute({
      ...common,
      path: '/dashboard',
      summary: 'The dashboard',
      replies: { 200: Type.String({ contentMediaType: 'text/html' }) },
      handler: ({ headers }) => serve('index.html', headers['if-none-match']),
    }),
    defineRoute({
      ...common,
      path: '/dashboard/:file',
      summary: 'A file of the dashboard',
      params: Type.Object({ file: Type.String({ maxLength: 64 }) }),
      replies: { 200: Type.String({ contentMediaType: '*/*' }), 404: Type.Object({ error: Type.String() }) },
      handler: ({ params, headers }) => serve(params.file, headers['if-none-match']),
    }),
  ];
}

interface PageFile {
  readonly bytes: Buffer;
  readonly contentType: string;
  readonly etag: string;
}

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
};
const FOLDER = join('plugins', 'dashboard', 'pages');

/** Files of the charting package, served unchanged. */
const FROM_PACKAGES: Readonly<Record<string, string>> = {
  'uplot.js': 'uplot/dist/uPlot.esm.js',
  'uplot.css': 'uplot/dist/uPlot.min.css',
};

/** All page files by name; they are few and small. Errors: DASHBOARD_PAGES_MISSING. */
export function readPages(): ReadonlyMap<string, PageFile> {
  const folder = findFolder();
  const own = readdirSync(folder).map((name) => [name, join(folder, name)] as const);
  const foreign = Object.entries(FROM_PACKAGES).map(([name, file]) => [name, findInPackage(file)] as const);
  const served = [...own, ...foreign].filter(([name]) => extname(name) in TYPES);
  return new Map(served.map(([name, path]) => [name, readPage(name, path)]));
}

function readPage(name: string, path: string): PageFile {
  const bytes = readFileSync(path);
  const etag = `"${createHash('sha256').update(bytes).digest('base64url').slice(0, 27)}"`;
  return { bytes, contentType: TYPES[extname(name)] as string, etag };
}

function findInPackage(file: string): string {
  try {
    return createRequire(import.meta.url).resolve(file);
  } catch {
    throw missing();
  }
}

/** The pages are not built: they are in the source folder, at a different depth for source and built tree. */
function findFolder(): string {
  let above = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(above, FOLDER, 'index.html'))) {
    if (above === dirname(above)) throw missing();
    above = dirname(above);
  }
  return join(above, FOLDER);
}

const missing = () => new CodedError('DASHBOARD_PAGES_MISSING', DASHBOARD_ERRORS.DASHBOARD_PAGES_MISSING);
