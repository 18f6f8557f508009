/**
 * `npm run test:file PATH...`: runs test files from their sources, with options of Node's runner. A file whose packages are not installed is
 * skipped, with the command that brings them.
 */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { packagesMissing } from './helpers/packages.ts';

const args = process.argv.slice(2);
const isFile = (word: string) => word.endsWith('.test.ts');
const kept = args.filter((word) => !isFile(word) || packagesMissing(word) === null);
if (args.some(isFile) && !kept.some(isFile)) process.exit(0);
const tsx = fileURLToPath(import.meta.resolve('tsx/cli'));
const { status } = spawnSync(process.execPath, [tsx, '--conditions=parhelion-source', '--test', ...kept], {
  stdio: 'inherit',
});
process.exitCode = status ?? 1;
