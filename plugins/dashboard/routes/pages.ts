import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Type } from '@sinclair/typebox';
import { CodedError, defineRoute, type Reply, RequestError, type Route } from '../../../src/plugin/plugin.ts';
import { DASHBOARD_ERRORS, type DashboardConfig } from '../config.ts';
import { OPEN_ROUTE } from './common.ts';
import { PORTAL_PAGE } from './portal.ts';

const BUILT = fileURLToPath(new URL('../pages/', import.meta.url));
const BUILDER = new URL('../app/build.mjs', import.meta.url);

const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'";
/** No external resources, nothing inline, no frames. */
const HEADERS: Readonly<Record<string, string>> = {
  'Content-Security-Policy': `${POLICY}; frame-ancestors 'none'`,
  'Referrer-Policy': 'no-referrer',
  'X-Frame-Options': 'DENY',
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Cache-Control': 'no-cache',
};

/** Those of the portal, which the pages of these origins may embed. */
function portalHeaders(origins: readonly string[]): Readonly<Record<string, string>> {
  const { 'X-Frame-Options': frames, ...others } = HEADERS;
  // A browser that asks whether its copy is the newest one keeps old headers.
  const headers = { ...others, 'Cache-Control': 'no-store' };
  if (origins.length === 0) return { ...headers, 'X-Frame-Options': frames as string };
  return { ...headers, 'Content-Security-Policy': `${POLICY}; frame-ancestors ${origins.join(' ')}` };
}

/** The files of the pages. They contain no secrets and are served without a login. */
export function pageRoutes(
  files: () => Promise<ReadonlyMap<string, PageFile>>,
  { portal }: Pick<DashboardConfig, 'portal'>,
): readonly Route[] {
  const serve = async (name: string, match: string | string[] | undefined): Promise<Reply> => {
    const file = (await files()).get(name);
    if (file === undefined) throw new RequestError(404, 'invalid path');
    const headers = { ...HEADERS, ETag: file.etag };
    if (match === file.etag) return { status: 304, headers };
    return { status: 200, headers, bytes: file.bytes, contentType: file.contentType };
  };
  const common = { ...OPEN_ROUTE, method: 'GET', errors: 'plain' } as const;
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
      path: PORTAL_PAGE,
      summary: 'The portal: the pages of one project, for a frame',
      query: Type.Object({
        theme: Type.Optional(Type.String({ maxLength: 16, description: 'light or dark; else as the browser has it' })),
      }),
      replies: { 200: Type.String({ contentMediaType: 'text/html' }) },
      async handler() {
        const { bytes, contentType } = (await files()).get('index.html') as PageFile;
        return { status: 200, headers: portalHeaders(portal.origins), bytes, contentType };
      },
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
  '.txt': 'text/plain; charset=utf-8',
};

/** Whether the files only have to be read. Beside the sources, and after a build for `npm start`, they have to be made. Throws DASHBOARD_PAGES_MISSING. */
export function arePagesBuilt(): boolean {
  if (existsSync(BUILT)) return true;
  if (existsSync(BUILDER)) return false;
  throw new CodedError('DASHBOARD_PAGES_MISSING', DASHBOARD_ERRORS.DASHBOARD_PAGES_MISSING);
}

/** All page files by name; they are few and small. */
export async function readPageFiles(): Promise<ReadonlyMap<string, PageFile>> {
  const files = await findFiles();
  return new Map(
    [...files].filter(([name]) => extname(name) in TYPES).map(([name, bytes]) => [name, describeFile(name, bytes)]),
  );
}

function describeFile(name: string, bytes: Buffer): PageFile {
  const etag = `"${createHash('sha256').update(bytes).digest('base64url').slice(0, 27)}"`;
  return { bytes, contentType: TYPES[extname(name)] as string, etag };
}

type Files = ReadonlyMap<string, Buffer>;

async function findFiles(): Promise<Files> {
  if (arePagesBuilt()) return new Map(readdirSync(BUILT).map((name) => [name, readFileSync(join(BUILT, name))]));
  const { buildPages } = (await import(BUILDER.href)) as { readonly buildPages: () => Promise<Files> };
  return buildPages();
}
