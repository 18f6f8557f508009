/** Fetches the package with the prover (151 MB) into the cache: `npx tsx test/helpers/light/fetch-prover.ts`. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { PROVER_FOLDER, PROVER_PACKAGE } from './prover-assets.ts';

const packed = join(PROVER_FOLDER, '..', 'packed');
mkdirSync(packed, { recursive: true });
mkdirSync(PROVER_FOLDER, { recursive: true });
execFileSync('npm', ['pack', PROVER_PACKAGE, '--silent', '--pack-destination', packed], { stdio: 'inherit' });
for (const name of readdirSync(packed)) {
  execFileSync('tar', [
    'xzf',
    join(packed, name),
    '-C',
    PROVER_FOLDER,
    '--strip-components=1',
    'package/bin',
    'package/package.json',
  ]);
}
rmSync(packed, { recursive: true });
