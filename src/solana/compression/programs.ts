import { decode32 } from '../../lib/base58.ts';
import type { KeyTable } from '../../ports/block.ts';

export const LIGHT_SYSTEM = 'SySTEM1eSU2p4BGQfQpimFEWWSC1XDFeun3Nqzz3rT7';
const REGISTRY = 'Lighton6oQpVkeewmo2mcPTQQp7kYHr4fWpAgJyEmDX';
const COMPRESSED_TOKEN = 'cTokenmWW8bLPjZEBAUgYy3zKxQZW6VKi7bqNFEVv3m';
const NOOP = 'noopb9bkMVfRPU8AsbpTUg8AQkHtKwMYZiFUjNRtMmV';
const REGISTERED_PROGRAM = '35hkDgaAKwMCaxRz2ocSZ6NaUrtKkyNqU6c4RV3tYJRh';
const SOLANA_SYSTEM = '11111111111111111111111111111111';

/** The account-compression program of Light Protocol. */
const ACCOUNT_COMPRESSION = 'compr6CUsB5m2jS4Y3831ztGSTnDpnKJTKS95d64XVq';

/** Ids of the programs that matter in the key table of one block; -1 for those that do not occur. */
export interface ProgramIds {
  readonly compression: number;
  readonly lightSystem: number;
  readonly registry: number;
  readonly token: number;
  readonly noop: number;
  readonly registeredProgram: number;
  readonly solanaSystem: number;
}

/** Finds the programs in a block. `compressionProgram` is base58; older deployments have other ids. */
export function createProgramFinder(compressionProgram = ACCOUNT_COMPRESSION): (keys: KeyTable) => ProgramIds {
  const bytes = (text: string): Uint8Array => {
    const key = decode32(text);
    if (key === null) throw new TypeError(`${text} is no key`);
    return key;
  };
  const known = {
    compression: bytes(compressionProgram),
    lightSystem: bytes(LIGHT_SYSTEM),
    registry: bytes(REGISTRY),
    token: bytes(COMPRESSED_TOKEN),
    noop: bytes(NOOP),
    registeredProgram: bytes(REGISTERED_PROGRAM),
    solanaSystem: bytes(SOLANA_SYSTEM),
  };
  return (keys) => ({
    compression: keys.find(known.compression),
    lightSystem: keys.find(known.lightSystem),
    registry: keys.find(known.registry),
    token: keys.find(known.token),
    noop: keys.find(known.noop),
    registeredProgram: keys.find(known.registeredProgram),
    solanaSystem: keys.find(known.solanaSystem),
  });
}
