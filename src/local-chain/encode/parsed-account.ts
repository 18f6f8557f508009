import { NONCE_BYTES, SYSTEM_PROGRAM } from '../ledger/nonce.ts';
import { isMint, isTokenAccount, isTokenProgram, TOKEN_PROGRAM } from '../ledger/token-state.ts';
import type { VmAccount } from '../vm/vm.ts';
import {
  type AccountInfo,
  configInfo,
  loaderInfo,
  nonceInfo,
  stakeInfo,
  sysvarInfo,
  tableInfo,
  voteInfo,
} from './account-native.ts';
import { mintInfo, multisigInfo, type TokenContext, tokenAccountInfo } from './account-token.ts';

const MULTISIG_BYTES = 355;

/** What is known beside the account that is shown. */
export interface ParseContext extends TokenContext {
  /** The account's own address. */
  readonly address: string;
}

interface Program {
  readonly name: string;
  readonly parse: (data: Uint8Array, address: string) => AccountInfo | null;
}

/** Programs whose accounts a node shows parsed, beside the token programs. */
const PROGRAMS: Readonly<Record<string, Program>> = {
  [SYSTEM_PROGRAM]: { name: 'nonce', parse: (data) => (data.length === NONCE_BYTES ? nonceInfo(data) : null) },
  AddressLookupTab1e1111111111111111111111111: { name: 'address-lookup-table', parse: tableInfo },
  BPFLoaderUpgradeab1e11111111111111111111111: { name: 'bpf-upgradeable-loader', parse: loaderInfo },
  Config1111111111111111111111111111111111111: { name: 'config', parse: configInfo },
  Stake11111111111111111111111111111111111111: { name: 'stake', parse: stakeInfo },
  Sysvar1111111111111111111111111111111111111: { name: 'sysvar', parse: (data, address) => sysvarInfo(address, data) },
  Vote111111111111111111111111111111111111111: { name: 'vote', parse: voteInfo },
};

/** `data` of an account for `jsonParsed`, or null where the node cannot parse it either. */
export function parseAccount(account: VmAccount, context: ParseContext) {
  const { data, owner } = account;
  const found = isTokenProgram(owner)
    ? { program: owner === TOKEN_PROGRAM ? 'spl-token' : 'spl-token-2022', parsed: parseTokenData(account, context) }
    : parseNative(owner, data, context.address);
  if (found === null || found.parsed === null) return null;
  return { program: found.program, parsed: found.parsed, space: data.length };
}

function parseTokenData(account: VmAccount, context: ParseContext): AccountInfo | null {
  const { data } = account;
  if (isTokenAccount(account)) return { type: 'account', info: tokenAccountInfo(data, context) };
  if (isMint(account)) return { type: 'mint', info: mintInfo(data) };
  return data.length === MULTISIG_BYTES ? { type: 'multisig', info: multisigInfo(data) } : null;
}

/** Anybody may write anything into accounts of some programs: what ends too early is shown as it is. */
function parseNative(owner: string, data: Uint8Array, address: string) {
  const program = Object.hasOwn(PROGRAMS, owner) ? PROGRAMS[owner] : undefined;
  if (program === undefined) return null;
  try {
    return { program: program.name, parsed: program.parse(data, address) };
  } catch (error) {
    if (error instanceof RangeError) return null;
    throw error;
  }
}
