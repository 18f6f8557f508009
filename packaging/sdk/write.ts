/**
 * `npx tsx --conditions=parhelion-source packaging/sdk/write.ts --output DIR`: writes the packages of all languages, a folder for each.
 * `--from URL` takes the documents of a running daemon, which may have other plugins, instead of those of the default configuration.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { documentsOf, ownDocuments } from './documents.ts';
import { sdkFiles } from './packages.ts';

const { values } = parseArgs({
  options: { output: { type: 'string' }, from: { type: 'string' }, 'package-version': { type: 'string' } },
});
if (values.output === undefined) throw new Error('--output DIR is missing');
const root = resolve(import.meta.dirname, '../..');
const documents = values.from === undefined ? await ownDocuments(root) : await documentsOf(values.from);
for (const [name, text] of sdkFiles(documents, { root, version: values['package-version'] })) {
  const path = join(values.output, name);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
}
process.exit();
