import { decode32 } from '../../lib/base58.ts';
import type { KeyTable, NormalInstruction, NormalTransaction } from '../../ports/block.ts';

export const LIGHT_SYSTEM = 'SySTEM1eSU2p4BGQfQpimFEWWSC1XDFeun3Nqzz3rT7';
const REGISTRY = 'Lighton6oQpVkeewmo2mcPTQQp7kYHr4fWpAgJyEmDX';
const COMPRESSED_TOKEN = 'cTokenmWW8bLPjZEBAUgYy3zKxQZW6VKi7bqNFEVv3m';
const NOOP = 'noopb9bkMVfRPU8AsbpTUg8AQkHtKwMYZiFUjNRtMmV';
const REGISTERED_PROGRAM = '35hkDgaAKwMCaxRz2ocSZ6NaUrtKkyNqU6c4RV3tYJRh';
const SOLANA_SYSTEM = '11111111111111111111111111111111';

/** The account-compression program of Light Protocol. */
const ACCOUNT_COMPRESSION = 'compr6CUsB5m2jS4Y3831ztGSTnDpnKJTKS95d64XVq';

/** Ids of the relevant programs in the key table of one block; -1 for absent ones. */
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

/** An instruction with the ids of its program and accounts in the block's key table. */
export interface Step {
  readonly program: number;
  readonly accounts: readonly number[];
  readonly data: Uint8Array;
}

/** An outer instruction and the inner ones that it caused, in order of execution. */
export type InstructionGroup = readonly Step[];

export function instructionGroups(transaction: NormalTransaction): readonly InstructionGroup[] {
  const { keys } = transaction;
  const step = ({ programIndex, accounts, data }: NormalInstruction): Step => ({
    program: keys[programIndex] ?? -1,
    accounts: Array.from(accounts, (account) => keys[account] ?? -1),
    data,
  });
  const inner = new Map(transaction.innerInstructions.map(({ index, instructions }) => [index, instructions]));
  return transaction.instructions.map((outer, i) => [step(outer), ...(inner.get(i) ?? []).map(step)]);
}

/** The keys of ids; accounts missing in the message become empty keys, which match nothing. */
export function keysOf(ids: readonly number[], table: KeyTable): readonly Uint8Array[] {
  return ids.map((id) => (id < 0 ? new Uint8Array(0) : table.bytes(id)));
}
