import type { ChainBlock, NormalTransaction } from '../../../src/ports/block.ts';
import type { SinkRow } from '../../../src/ports/sink.ts';
import { walkInstructions } from '../../../src/solana/movements/movement.ts';

/** Addresses are base58; an empty list lets everything through. */
export interface RowFilter {
  /** The transaction has one of them among its keys, or as the owner of a token account. */
  readonly addresses: readonly string[];
  /** The instruction or line of the log is of one of them; of a transaction at least one instruction. */
  readonly programs: readonly string[];
  /** The transfer or change is of one of them: the owner, or the account where there is no owner. */
  readonly owners: readonly string[];
  /** The transfer or change is of one of them, or of the asset with this id; `native`: SOL. */
  readonly mints: readonly string[];
  /** The transfer is of one of these kinds. */
  readonly kinds: readonly string[];
  readonly votes: boolean;
  readonly failed: boolean;
}

/** The rows of one transaction by table. */
export type TransactionRows = ReadonlyMap<string, readonly SinkRow[]>;

const setOf = (list: readonly string[]): ReadonlySet<string> | null => (list.length === 0 ? null : new Set(list));

export interface CompiledFilter {
  /** Whether rows of a transaction are made at all. */
  admits(tx: NormalTransaction, block: Pick<ChainBlock, 'keys'>): boolean;
  program(address: string | null): boolean;
  owners(...addresses: readonly (string | null)[]): boolean;
  mint(mint: string | null): boolean;
  asset(asset: string | null): boolean;
  kind(kind: string): boolean;
  /** Whether a state of an account is written. `program`: that owns it. */
  account(address: string, program: string | null): boolean;
  /** A transaction is written only with a transfer or change that passes. */
  readonly needsMovement: boolean;
}

export function compileFilter(filter: RowFilter): CompiledFilter {
  const addresses = setOf(filter.addresses);
  const programs = setOf(filter.programs);
  const owners = setOf(filter.owners);
  const mints = setOf(filter.mints);
  const kinds = setOf(filter.kinds);
  return {
    admits(tx, { keys }) {
      if ((tx.isVote && !filter.votes) || (tx.error !== null && !filter.failed)) return false;
      const isWanted = (id: number) => addresses!.has(keys.base58(id));
      if (addresses !== null && !tx.keys.some(isWanted) && !tx.tokenOwners.some(isWanted)) return false;
      if (programs === null) return true;
      return walkInstructions(tx).some(({ program }) => program >= 0 && programs.has(keys.base58(program)));
    },
    program: (address) => programs === null || (address !== null && programs.has(address)),
    owners: (...found) => owners === null || found.some((one) => one !== null && owners.has(one)),
    mint: (mint) => mints === null || mints.has(mint ?? 'native'),
    asset: (asset) => mints === null || (asset !== null && mints.has(asset)),
    kind: (kind) => kinds === null || kinds.has(kind),
    account: (address, program) =>
      (addresses === null || addresses.has(address)) &&
      (programs === null || (program !== null && programs.has(program))),
    needsMovement: owners !== null || mints !== null || kinds !== null,
  };
}
