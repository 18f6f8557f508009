import { Type } from '@sinclair/typebox';
import { defineRoute, type Reply, RequestError, type Route } from '../../../src/kernel/plugin.ts';
import type { PageFile } from '../pages.ts';

/** Nothing from elsewhere, nothing inline, in no frame. */
const HEADERS: Readonly<Record<string, string>> = {
  'Content-Security-Policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
  'Referrer-Policy': 'no-referrer',
  'X-Frame-Options': 'DENY',
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Cache-Control': 'no-cache',
};

/** The files of the pages. They hold nothing secret and are served to whoever reaches the listener. */
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
