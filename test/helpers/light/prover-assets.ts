import { createHash } from 'node:crypto';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findLightAssets } from '../../../packages/local-chain/chain.ts';
import { findProjectRoot } from '../project-root.ts';

export const PROVER_PACKAGE = '@lightprotocol/zk-compression-cli@0.27.0';
/** Where the package is unpacked: the last build of it that carries a prover, with the programs that believe its proofs. */
export const PROVER_FOLDER = join(findProjectRoot(), '.cache/light/0.27.0');

const PROVER_FILE = 'prover-linux-x64';
const PROVER_SHA256 = '0d1b4d543cd8a10a3c0e9584b988b3305d291a43df13f25409b8bdb5cfbcca30';
/** The prover does not start without keys for these numbers, which the package lacks; proofs of so many are not tested. */
const STAND_INS = [
  ['mainnet_inclusion_26', [8]],
  ['inclusion_32', [8]],
  ['non-inclusion_26', [3, 4, 8]],
  ['non-inclusion_40', [3, 4, 8]],
] as const;

/** Why proofs cannot be made here, or false: they are asked for by RUN_PROVER=1, since the package has 151 MB. */
export function proverMissing(): string | false {
  if (process.env['RUN_PROVER'] !== '1')
    return 'proofs are made with RUN_PROVER=1 (npx tsx test/helpers/light/fetch-prover.ts)';
  if (process.platform !== 'linux' || process.arch !== 'x64') return 'the prover is a program for Linux x64';
  if (!existsSync(join(PROVER_FOLDER, 'bin', PROVER_FILE))) {
    throw new Error('the prover is not there: npx tsx test/helpers/light/fetch-prover.ts');
  }
  return false;
}

export interface ProverAssets {
  /** Programs and genesis accounts for the local chain. */
  readonly lightAssets: string;
  readonly program: string;
  readonly keys: string;
  remove(): void;
}

/** Programs of the prover's package, accounts of the installed one, and a complete set of keys, in a folder of their own. */
export function prepareProverAssets(): ProverAssets {
  const bin = join(PROVER_FOLDER, 'bin');
  const program = join(bin, PROVER_FILE);
  const sha256 = createHash('sha256').update(readFileSync(program)).digest('hex');
  if (sha256 !== PROVER_SHA256) throw new Error(`${program} is not the published build`);
  chmodSync(program, 0o755);
  const folder = mkdtempSync(join(tmpdir(), 'parhelion-prover-'));
  const lightAssets = join(folder, 'light');
  mkdirSync(lightAssets);
  symlinkSync(bin, join(lightAssets, 'bin'));
  symlinkSync(join(findLightAssets(null) as string, 'accounts'), join(lightAssets, 'accounts'));
  const keys = join(folder, 'keys');
  mkdirSync(keys);
  for (const name of readdirSync(join(bin, 'proving-keys')))
    symlinkSync(join(bin, 'proving-keys', name), join(keys, name));
  for (const [name, counts] of STAND_INS) {
    for (const count of counts)
      symlinkSync(join(bin, 'proving-keys', `${name}_1.key`), join(keys, `${name}_${count}.key`));
  }
  return { lightAssets, program, keys: `${keys}/`, remove: () => rmSync(folder, { recursive: true, force: true }) };
}
