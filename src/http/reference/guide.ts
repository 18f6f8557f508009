/** The guide: the pages of `docs/` as a site at `/docs/guide`. [guide/build.mjs](guide/build.mjs) makes it. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Type } from '@sinclair/typebox';
import { CodedError } from '../../lib/coded-error.ts';
import { lazy } from '../../lib/lru.ts';
import { defineRoute, RequestError, type Route, type Tag } from '../../plugin/plugin.ts';
import { compressedFileOf, fileOf, fileReply, type StaticFile } from './files.ts';

export const DOCUMENTS: Tag = { name: 'Documentation', description: 'The interface as documents and as a page' };

/** Nothing inline and nothing from another host. */
const POLICY =
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
      replies: { 200: Type.String({ contentMediaType: '*/*', description: 'The file' }) },
      async handler({ params, headers }) {
        const found = (await files()).get(params.file);
        if (found === undefined) throw new RequestError(404, 'invalid path');
        const reply = fileReply(found, headers);
        const policy = { 'Content-Security-Policy': POLICY, 'Referrer-Policy': 'no-referrer' };
        return { ...reply, headers: { ...reply.headers, ...policy, 'Cross-Origin-Opener-Policy': 'same-origin' } };
      },
    }),
  ];
}

/** Both listeners serve one copy. */
const files = lazy(readFiles);

/** A build has the files, compressed; beside the sources they are made now. */
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
