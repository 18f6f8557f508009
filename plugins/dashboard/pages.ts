import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { CodedError } from '../../src/kernel/plugin.ts';
import { DASHBOARD_ERRORS } from './errors.ts';

export interface PageFile {
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

/** All files of the pages by name; they are few and small. Errors: DASHBOARD_PAGES_MISSING. */
export function readPages(): ReadonlyMap<string, PageFile> {
  const folder = findFolder();
  const names = readdirSync(folder).filter((name) => extname(name) in TYPES);
  return new Map(
    names.map((name) => {
      const bytes = readFileSync(join(folder, name));
      const etag = `"${createHash('sha256').update(bytes).digest('base64url').slice(0, 27)}"`;
      return [name, { bytes, contentType: TYPES[extname(name)] as string, etag }];
    }),
  );
}

/** The pages are not built: they lie in the source, which is nearer or farther above this file. */
function findFolder(): string {
  let above = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(above, FOLDER, 'index.html'))) {
    if (above === dirname(above))
      throw new CodedError('DASHBOARD_PAGES_MISSING', DASHBOARD_ERRORS.DASHBOARD_PAGES_MISSING);
    above = dirname(above);
  }
  return join(above, FOLDER);
}
