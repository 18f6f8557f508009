import {
  ASSOCIATED_TOKEN_PROGRAM,
  METADATA_PROGRAM,
  SYSTEM_PROGRAM,
  TOKEN_2022_PROGRAM,
  TOKEN_PROGRAM,
} from '../address/known-programs.ts';
import { DEVNET } from './data/devnet-programs.ts';
import { PROGRAM_ADDRESSES as AT } from './data/program-addresses.ts';
import { BUBBLEGUM, COMPUTE_BUDGET, JUPITER_V6, MEMO, MEMO_V1 } from './program-ids.ts';
import type { TransactionView } from './view.ts';

/** Programs that do not stand in the way of reading a transaction by its transfers. */
const KNOWN: ReadonlySet<string> = new Set([
  ...[SYSTEM_PROGRAM, TOKEN_PROGRAM, TOKEN_2022_PROGRAM, ASSOCIATED_TOKEN_PROGRAM, METADATA_PROGRAM],
  ...[COMPUTE_BUDGET, MEMO, MEMO_V1, BUBBLEGUM, JUPITER_V6, AT.STAKE_PROGRAM, AT.MAGIC_EDEN_V2],
  ...[
    AT.JUPITER_V1,
    AT.JUPITER_V2,
    AT.JUPITER_V3,
    AT.JUPITER_V4,
    AT.RAYDIUM_LIQUIDITY_POOL_V4,
    DEVNET.RAYDIUM_LIQUIDITY_POOL_V4,
  ],
  ...[AT.CANDY_MACHINE_V1, AT.CANDY_MACHINE_V2, AT.CANDY_MACHINE_V3, AT.CANDY_MACHINE_CORE_V3],
  ...[AT.BPF_LOADER, AT.BPF_UPGRADEABLE_LOADER],
]);

/**
 * Whether nothing else happens than what these programs do: an instruction with accounts of any other program may mean anything.
 * One without accounts can only leave a mark.
 */
export function isPlain(view: TransactionView, also: readonly string[] = []): boolean {
  return view.outer.every(
    ({ programId, accounts }) => accounts.length === 0 || KNOWN.has(programId) || also.includes(programId),
  );
}
