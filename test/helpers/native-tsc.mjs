/** The native compiler of TypeScript, wherever its package is installed: `node native-tsc.mjs ARGUMENTS`. */
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';

const manifest = createRequire(import.meta.url).resolve('typescript-native/package.json');
await import(pathToFileURL(join(dirname(manifest), 'bin/tsc')).href);
